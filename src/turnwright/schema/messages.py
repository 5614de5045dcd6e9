"""What a conversation is made of, as the model is to see it. Provenance is in the type: nothing the runtime says can
be mistaken for the user or the model."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from turnwright.schema.ids import CallId


class Image(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A picture, base64-encoded."""

    media_type: str
    data: str


class Reasoning(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A block of thinking. `signature` and `opaque` are the provider's own and go back to the same route untouched."""

    text: str = ""
    signature: str = ""
    opaque: str = ""
    """JSON text of whatever else the provider wants back (reasoning_details, encrypted items)."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A call the model asked for. `arguments` is always the text of a JSON object."""

    id: CallId
    name: str
    arguments: str
    raw: str = ""
    """The arguments as they were sent, where they were not valid JSON."""
    problem: str = ""
    """Why this call must not be executed; empty when it may be."""
    signature: str = ""
    """A provider's opaque token that belongs to this call."""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    call_id: CallId
    name: str
    output: str
    is_error: bool = False
    images: tuple[Image, ...] = ()


class UserMessage(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="role", tag="user"
):
    text: str
    images: tuple[Image, ...] = ()


class RuntimeMessage(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="role", tag="runtime"
):
    """What Turnwright itself says to the model."""

    text: str
    code: str


class AssistantMessage(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="role", tag="assistant"
):
    text: str = ""
    reasoning: tuple[Reasoning, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    route: str = ""
    """Which route said it: reasoning is bound to it."""


class ToolResults(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="role", tag="tools"
):
    """The results of one reply's calls, in call order."""

    results: tuple[ToolResult, ...]


Message: TypeAlias = UserMessage | RuntimeMessage | AssistantMessage | ToolResults
