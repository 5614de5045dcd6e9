"""What one more request costs to encode when so many steps lie behind it: we keep bytes, the bare loop begins anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import msgspec

from turnwright.providers.codec import Quirks
from turnwright.providers.codecs.openai_chat import OpenAIChat
from turnwright.providers.encoded import EncodedMessages
from turnwright.schema.messages import AssistantMessage, Message, ToolCall, ToolResult, ToolResults, UserMessage
from turnwright.schema.prompt import Prompt, Section

MEASURED_STEPS = 50


def ours_us(steps_behind: int) -> float:
    codec, encoded, quirks = OpenAIChat(), EncodedMessages(), Quirks()
    messages: list[Message] = [UserMessage(text="go")]
    prompt = Prompt(lineage="c", system=(Section("role", "You are an agent."),), messages=messages)

    def request() -> bytes:
        return codec.encode_request(prompt, "bench", encoded.of(prompt, codec, "route", quirks), True, quirks)

    for step in range(steps_behind):
        messages += _step(step)
    request()
    spent_us = []
    for step in range(steps_behind, steps_behind + MEASURED_STEPS):
        messages += _step(step)
        spent_us.append(_us(request))
    return median(spent_us)


def bare_us(steps_behind: int) -> float:
    messages = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": "go"}]
    history: list[object] = [*messages]
    for step in range(steps_behind):
        history += _bare_step(step)

    def request() -> bytes:
        return msgspec.json.encode({"model": "bench", "stream": True, "messages": history})

    spent_us = []
    for step in range(steps_behind, steps_behind + MEASURED_STEPS):
        history += _bare_step(step)
        spent_us.append(_us(request))
    return median(spent_us)


def _step(index: int) -> list[Message]:
    call = ToolCall(id=f"call_{index:06}", name="look", arguments='{"path":"src/service.py","line":120}')
    result = ToolResult(call_id=call.id, name=call.name, output="ok")
    return [AssistantMessage(text="I look at it.", calls=(call,)), ToolResults(results=(result,))]


def _bare_step(index: int) -> list[object]:
    call_id = f"call_{index:06}"
    function = {"name": "look", "arguments": '{"path":"src/service.py","line":120}'}
    call = {"id": call_id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": "I look at it.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": "ok"},
    ]


def _us(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e6
