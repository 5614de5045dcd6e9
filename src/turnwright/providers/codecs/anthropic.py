"""Anthropic Messages, also as Bedrock and Vertex carry them.

The dialect has no voice for the runtime in the middle of a conversation, so a RuntimeMessage is a user message whose
text is marked as the runtime's own, whatever the quirks say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from turnwright.providers.codec import Dialect, Frame, Framing, Messages, Quirks, thinking
from turnwright.providers.error_bodies import error_in, error_of, odd_frame
from turnwright.providers.shapes import count_of, json_text, marked, text_of
from turnwright.schema.messages import (
    AssistantMessage,
    Image,
    Message,
    Reasoning,
    RuntimeMessage,
    ToolResult,
    ToolResults,
    UserMessage,
)
from turnwright.schema.parts import (
    Done,
    Finish,
    Part,
    Raw,
    ReasoningPart,
    Start,
    StreamError,
    Text,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    UsagePart,
)
from turnwright.schema.prompt import Prompt, ToolSpec
from turnwright.schema.verdicts import FinishClass

FINISHES: dict[str, FinishClass] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}

DEFAULT_MAX_OUTPUT_TOKENS = 8_192
"""The dialect demands a limit; this one every model of it accepts but the very first."""

CACHE = b'"cache_control":{"type":"ephemeral"}'
_CACHE: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
THINK_TOKENS = 4_096
THINK: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": THINK_TOKENS}}
THINK_LESS: dict[str, Any] = {"thinking": {"type": "disabled"}}
_UNFIT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_ABSENT = msgspec.Raw()


class _Delta(msgspec.Struct, gc=False):
    type: Any = None
    text: Any = None
    partial_json: Any = None
    thinking: Any = None
    signature: Any = None
    stop_reason: Any = None
    stop_details: msgspec.Raw = _ABSENT


class _Event(msgspec.Struct):
    """An event of a stream, and a whole message as well: the type tells."""

    type: Any = None
    index: Any = None
    delta: _Delta | None = None
    content_block: Any = None
    message: Any = None
    usage: Any = None
    error: Any = None
    id: Any = None
    model: Any = None
    content: Any = None
    stop_reason: Any = None
    stop_details: Any = None


_decode = msgspec.json.Decoder(_Event).decode
_decode_loosely = msgspec.json.Decoder().decode


class State(msgspec.Struct, frozen=True):
    stream: bool
    reported: Usage = Usage()
    open: dict[int, str] = {}
    """Kinds of the blocks that have not ended."""
    given: dict[int, str] = {}
    """Arguments that came with the start of a call, while no piece of them has come."""


class Anthropic:
    dialect: Dialect = "anthropic"
    framing: Framing = "sse"

    def path(self, model: str, stream: bool) -> str:
        return "/messages"

    def headers(self, quirks: Quirks) -> dict[str, str]:
        return {"anthropic-version": "2023-06-01"}

    def encode_message(self, message: Message, route: str, quirks: Quirks) -> bytes:
        role, blocks = _blocks(message, route)
        return msgspec.json.encode({"role": role, "content": blocks}) if blocks else b""

    def encode_request(self, prompt: Prompt, model: str, messages: Messages, stream: bool, quirks: Quirks) -> bytes:
        limit = prompt.max_output_tokens or quirks.default_max_output_tokens or DEFAULT_MAX_OUTPUT_TOKENS
        head: dict[str, Any] = {"model": model, "max_tokens": limit, "stream": stream}
        if prompt.temperature is not None and quirks.temperature:
            head["temperature"] = prompt.temperature
        head |= _tools(prompt, quirks)
        system = [{"type": "text", "text": section.text} for section in prompt.system if section.text.strip()]
        if system:
            system[-1] |= _CACHE
            head["system"] = system
        if not (prompt.reasoning and _is_amid_calls_without_thought(prompt.messages)):
            head |= thinking(prompt, quirks, THINK, THINK_LESS)
        if prompt.reasoning and "thinking" in head:
            head["max_tokens"] = max(limit, 2 * THINK_TOKENS)
            head.pop("temperature", None)  # refused beside thinking
        head |= quirks.extra_body
        if prompt.messages and not isinstance(prompt.messages[-1], AssistantMessage) and messages.endswith(b"}]}"):
            # What was sent before stays in the cache: the mark is no part of what the cache compares.
            said: tuple[Messages | memoryview, ...] = (memoryview(messages)[:-3], b",", CACHE, b"}]}")
        else:
            said = (messages,)
        return b"".join((msgspec.json.encode(head)[:-1], b',"messages":[', *said, b"]}"))

    def begin(self, stream: bool) -> State:
        return State(stream=stream)

    def step(self, state: State, frame: Frame) -> tuple[State, Sequence[Part]]:
        try:
            event = _decode(frame.data)
        except (msgspec.DecodeError, RecursionError):
            return state, odd_frame(frame.data, state.stream)
        delta = event.delta
        if delta is not None and event.type == "content_block_delta":
            kind = delta.type
            if kind == "text_delta" and type(delta.text) is str:
                return state, (Text(delta.text),) if delta.text else ()
            index = event.index if type(event.index) is int else 0
            if kind == "thinking_delta" and type(delta.thinking) is str:
                return state, (ReasoningPart(delta.thinking, index),) if delta.thinking else ()
            if kind == "input_json_delta" and type(delta.partial_json) is str:
                return _read_arguments(state, delta.partial_json, index)
            return state, _read_delta(delta, index, frame.data)
        return _read(state, event, frame.data)

    def end(self, state: State) -> Sequence[Part]:
        return ()

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> StreamError:
        return error_of(status, body)


def _read_arguments(state: State, fragment: str, index: int) -> tuple[State, Sequence[Part]]:
    kind = state.open.get(index, "tool_use")
    if not fragment:
        return state, ()
    if kind != "tool_use":
        return state, (Raw(kind, fragment),)
    if index in state.given:
        state = msgspec.structs.replace(state, given=_without(state.given, index))
    return state, (ToolCallArguments(fragment=fragment, index=index),)


def _read_delta(delta: _Delta, index: int, data: bytes) -> Sequence[Part]:
    kind = text_of(delta.type)
    if kind == "signature_delta":
        signature = text_of(delta.signature)
        return (ReasoningPart(block=index, signature=signature),) if signature else ()
    return (Raw(kind, data.decode("utf-8", "replace")),)


def _read(state: State, event: _Event, data: bytes) -> tuple[State, Sequence[Part]]:
    index = event.index if type(event.index) is int else 0
    match event.type:
        case "content_block_start" if isinstance(event.content_block, dict):
            return _read_start(state, event.content_block, index)
        case "content_block_stop":
            return _read_stop(state, index)
        case "message_start" if isinstance(event.message, dict):
            start = Start(model=text_of(event.message.get("model")), response_id=text_of(event.message.get("id")))
            state, usage = _read_usage(state, event.message.get("usage"))
            return state, (start, *usage)
        case "message_delta":
            finish = _finish(event.delta.stop_reason) if event.delta else ()
            details = bytes(event.delta.stop_details) if event.delta else b""
            why = (Raw("stop_details", details.decode("utf-8", "replace")),) if details not in (b"", b"null") else ()
            state, usage = _read_usage(state, event.usage)
            return state, (*why, *finish, *usage)
        case "message_stop":
            return state, (Done(),)
        case "ping":
            return state, ()
        case "message":
            return _read_message(state, event)
        case _:
            error = error_in({"error": event.error})
            return state, (error,) if error else odd_frame(data, state.stream)


def _read_start(state: State, block: dict[str, Any], index: int) -> tuple[State, Sequence[Part]]:
    kind = text_of(block.get("type"))
    given = state.given
    if kind == "tool_use" and block.get("input"):
        given = {**given, index: json_text(block["input"])}
    state = msgspec.structs.replace(state, open={**state.open, index: kind}, given=given)
    if kind == "tool_use":
        return state, (ToolCallStart(index=index, id=text_of(block.get("id")), name=text_of(block.get("name"))),)
    return state, _read_block(block, index)


def _read_block(block: dict[str, Any], index: int) -> Sequence[Part]:
    """A block that is no call, whole or just begun."""
    match block:
        case {"type": "text"}:
            text = text_of(block.get("text"))
            return (Text(text),) if text else ()
        case {"type": "thinking"}:
            text, signature = text_of(block.get("thinking")), text_of(block.get("signature"))
            return (ReasoningPart(text, index, signature),) if text or signature else ()
        case {"type": "redacted_thinking"}:
            return (ReasoningPart(block=index, opaque=json_text(block)),)
        case _:
            return (Raw(text_of(block.get("type")), json_text(block)),)


def _read_stop(state: State, index: int) -> tuple[State, Sequence[Part]]:
    if state.open.get(index) != "tool_use":
        return msgspec.structs.replace(state, open=_without(state.open, index)), ()
    end = ToolCallEnd(index=index, arguments=state.given.get(index))
    return msgspec.structs.replace(state, open=_without(state.open, index), given=_without(state.given, index)), (end,)


def _without(blocks: dict[int, str], index: int) -> dict[int, str]:
    return {key: value for key, value in blocks.items() if key != index}


def _read_message(state: State, message: _Event) -> tuple[State, Sequence[Part]]:
    parts: list[Part] = [Start(model=text_of(message.model), response_id=text_of(message.id))]
    for index, block in enumerate(message.content if isinstance(message.content, list) else ()):
        if not isinstance(block, dict):
            continue
        if block.get("type") == "tool_use":
            id_ = text_of(block.get("id"))
            parts.append(ToolCallStart(index=index, id=id_, name=text_of(block.get("name"))))
            if (arguments := block.get("input")) is not None:
                parts.append(ToolCallArguments(fragment=json_text(arguments), index=index, id=id_))
            parts.append(ToolCallEnd(index=index, id=id_))
        else:
            parts.extend(_read_block(block, index))
    if message.stop_details:
        parts.append(Raw("stop_details", json_text(message.stop_details)))
    state, usage = _read_usage(state, message.usage)
    return state, (*parts, *_finish(message.stop_reason), *usage, Done())


def _finish(raw: object) -> Sequence[Part]:
    return (Finish(raw=raw, finish=FINISHES.get(raw, "other")),) if isinstance(raw, str) and raw else ()


def _read_usage(state: State, usage: object) -> tuple[State, Sequence[Part]]:
    """The provider counts cached input apart from input, and gives its figures in two instalments."""
    if not isinstance(usage, dict):
        return state, ()
    details = usage.get("output_tokens_details")
    said = {
        "input": count_of(usage.get("input_tokens")),
        "output": count_of(usage.get("output_tokens")),
        "cache_read": count_of(usage.get("cache_read_input_tokens")),
        "cache_write": count_of(usage.get("cache_creation_input_tokens")),
        "reasoning": count_of(details.get("thinking_tokens")) if isinstance(details, dict) else None,
    }
    reported = msgspec.structs.replace(state.reported, **{key: n for key, n in said.items() if n is not None})
    if reported == Usage():
        return state, ()
    whole = None
    if reported.input is not None:
        whole = reported.input + (reported.cache_read or 0) + (reported.cache_write or 0)
    part = UsagePart(usage=msgspec.structs.replace(reported, input=whole), reported=reported)
    return msgspec.structs.replace(state, reported=reported), (part,)


# What we say.


def _tools(prompt: Prompt, quirks: Quirks) -> dict[str, Any]:
    if not prompt.tools:
        return _tools_of_the_past(prompt)
    tools = [_tool(tool) for tool in prompt.tools]
    tools[-1] |= _CACHE
    said: dict[str, Any] = {"tools": tools}
    if quirks.parallel_tool_calls is False:
        said["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    return said


def _is_amid_calls_without_thought(messages: Sequence[Message]) -> bool:
    """Where thinking is on, the reply whose calls are being answered must have begun with a thought."""
    for message in reversed(messages):
        match message:
            case AssistantMessage(calls=calls, reasoning=reasoning):
                return bool(calls) and not reasoning
            case UserMessage():
                return False
            case _:
                pass
    return False


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _tools_of_the_past(prompt: Prompt) -> dict[str, Any]:
    """A history with calls is refused without tools: name those it used, and allow none."""
    calls = (call for message in prompt.messages if isinstance(message, AssistantMessage) for call in message.calls)
    names = dict.fromkeys(call.name for call in calls)
    if not names:
        return {}
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in names]
    return {"tools": tools, "tool_choice": {"type": "none"}}


def _blocks(message: Message, route: str) -> tuple[str, list[dict[str, Any]]]:
    match message:
        case UserMessage(text=text, images=images):
            return "user", [*_text(text), *map(_image, images)]
        case RuntimeMessage():
            return "user", _text(marked(message))
        case AssistantMessage():
            own = message.route == route
            thoughts = [block for thought in message.reasoning if (block := _thought(thought))] if own else []
            calls = [
                {
                    "type": "tool_use",
                    "id": _id(call.id),
                    "name": call.name,
                    "input": msgspec.Raw(call.arguments.encode()),
                }
                for call in message.calls
            ]
            said = [*_text(message.text), *calls]
            return "assistant", [*thoughts, *said] if said else []
        case ToolResults(results=results):
            return "user", [_result(result) for result in results]


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text.strip() else []  # blank text is refused


def _image(image: Image) -> dict[str, Any]:
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}


def _thought(thought: Reasoning) -> dict[str, Any] | None:
    """Only what the provider has signed goes back; it refuses the rest."""
    if thought.opaque:
        try:
            block = _decode_loosely(thought.opaque)
        except msgspec.DecodeError:
            return None
        return block if isinstance(block, dict) and block.get("type") == "redacted_thinking" else None
    if not thought.signature:
        return None
    return {"type": "thinking", "thinking": thought.text, "signature": thought.signature}


def _result(result: ToolResult) -> dict[str, Any]:
    output = result.output or ("The tool failed and said nothing." if result.is_error else "")
    said: dict[str, Any] = {"type": "tool_result", "tool_use_id": _id(result.call_id), "content": output}
    if result.images:
        said["content"] = [*_text(output), *map(_image, result.images)]
    if result.is_error:
        said["is_error"] = True
    return said


def _id(call_id: str) -> str:
    """Ids of other providers may hold signs that this one refuses."""
    return _UNFIT_IN_ID.sub("_", call_id)
