"""What the tests of the codecs share: one conversation to encode, and a way to feed frames."""

from __future__ import annotations

import json
from typing import Any

from turnwright.providers.codec import Codec, Frame, Quirks
from turnwright.schema.messages import (
    AssistantMessage,
    Image,
    Message,
    Reasoning,
    RuntimeMessage,
    ToolCall,
    ToolResult,
    ToolResults,
    UserMessage,
)
from turnwright.schema.parts import Part
from turnwright.schema.prompt import Prompt, Section, ToolSpec

PLAIN = Quirks()
PICTURE = Image(media_type="image/png", data="QUJD")
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOLS = (
    ToolSpec(name="read", description="Reads.", parameters=SCHEMA),
    ToolSpec(name="shot", description="Looks.", parameters=SCHEMA),
)
STOP = RuntimeMessage(text="Stop.", code="wrap-up")
MARKED_STOP = '<runtime-message code="wrap-up" from="turnwright, not the user">\nStop.\n</runtime-message>'
SHOWN = (
    '<runtime-message code="tool-images" from="turnwright, not the user">\n'
    "Images from the result of shot (b.2):\n</runtime-message>"
)


def said(*reasoning: Reasoning, signature: str = "") -> AssistantMessage:
    call = ToolCall(id="a", name="read", arguments='{"path":"x"}', signature=signature)
    return AssistantMessage(
        text="I look.",
        reasoning=reasoning,
        calls=(call, ToolCall(id="b.2", name="shot", arguments="{}")),
        route="r",
    )


RESULTS = ToolResults(
    results=(
        ToolResult(call_id="a", name="read", output="no such file", is_error=True),
        ToolResult(call_id="b.2", name="shot", output="done", images=(PICTURE,)),
    )
)


def prompt_of(*messages: Message, **more: Any) -> Prompt:
    system = (Section("role", "Be brief."), Section("env", "Here."))
    return Prompt(**({"lineage": "l", "system": system, "messages": messages, "tools": TOOLS} | more))


def request(codec: Codec, prompt: Prompt, quirks: Quirks = PLAIN, *, route: str = "r", stream: bool = True) -> Any:
    """What is sent, as the provider would parse it."""
    encoded = [codec.encode_message(message, route, quirks) for message in prompt.messages]
    messages = b",".join(one for one in encoded if one)
    return json.loads(codec.encode_request(prompt, "m", messages, stream, quirks))


def encoded(codec: Codec, message: Message, quirks: Quirks = PLAIN, *, route: str = "r") -> Any:
    return json.loads(b"[" + codec.encode_message(message, route, quirks) + b"]")


def parts_of(codec: Codec, *frames: dict[str, Any] | str, stream: bool = True) -> list[Part]:
    state, parts = codec.begin(stream), list[Part]()
    for frame in frames:
        data = frame if isinstance(frame, str) else json.dumps(frame, separators=(",", ":"))
        state, more = codec.step(state, Frame(data.encode()))
        parts.extend(more)
    return [*parts, *codec.end(state)]


def conversation() -> tuple[Message, ...]:
    return (UserMessage(text="See", images=(PICTURE,)), said(), RESULTS, STOP)
