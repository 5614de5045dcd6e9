"""What a pretended provider says, before any dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from turnwright.schema.parts import Usage
from turnwright.schema.verdicts import ErrorKind, FinishClass

FrameKind: TypeAlias = Literal[
    "start", "reasoning", "text", "refusal", "call", "arguments", "closing", "finish", "usage", "done", "other"
]
"""What a frame is for, so that a fault can be put at a stage by name."""


class SaidCall(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    fragments: tuple[str, ...] = ("{}",)
    """The text of the arguments, in the pieces in which a stream brings them. Dialects that send objects join them."""
    id: str = ""

    @property
    def arguments(self) -> str:
        return "".join(self.fragments)


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A whole reply. `text` and `reasoning` come in these deltas."""

    text: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()
    calls: tuple[SaidCall, ...] = ()
    refusal: tuple[str, ...] = ()
    finish: FinishClass = "stop"
    usage: Usage | None = Usage(input=11, output=7)
    model: str = "pretended-1"


class SaidError(msgspec.Struct, frozen=True, kw_only=True):
    """An error, for a body or a stream."""

    kind: ErrorKind
    message: str
    status: int


class Frame(msgspec.Struct, frozen=True):
    """One event of a stream, not yet framed."""

    kind: FrameKind
    data: bytes
    event: str = ""


class Speaker(msgspec.Struct, frozen=True, kw_only=True):
    """A dialect as its providers speak it."""

    stream: Callable[[Said], list[Frame]]
    document: Callable[[Said], dict[str, Any]]
    error_body: Callable[[SaidError], dict[str, Any]]
    error_frame: Callable[[SaidError], Frame]
    """The same error in the middle of a stream."""
    idle_frame: Frame
    """Keeps a stream warm without a word: a ping or an empty delta."""
    framing: Literal["sse", "ndjson"] = "sse"


def json_bytes(value: object) -> bytes:
    return msgspec.json.encode(value)


def frame(kind: FrameKind, data: object, event: str = "") -> Frame:
    return Frame(kind, json_bytes(data), event)


def framed(one: Frame, framing: Literal["sse", "ndjson"]) -> bytes:
    if framing == "ndjson":
        return one.data + b"\n"
    head = b"event: %b\n" % one.event.encode() if one.event else b""
    return head + b"data: " + one.data + b"\n\n"


def total(usage: Usage) -> int:
    return (usage.input or 0) + (usage.output or 0)


def joined(pieces: Iterable[str]) -> str:
    return "".join(pieces)


def parsed(call: SaidCall) -> Any:
    """The arguments as the object that some dialects send."""
    return msgspec.json.decode(call.arguments)
