"""Normalised pieces of a provider's reply. Deltas are fragments, never cumulative."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from turnwright.schema.verdicts import ErrorKind, FinishClass, StallReason


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Tokens. `input` is the whole prompt with its cached share, `output` everything generated with its reasoning.

    None means that the provider did not say; it is not 0.
    """

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None


def add_usage(one: Usage, other: Usage) -> Usage:
    """Absent differs from 0: what neither side says stays unsaid."""
    return Usage(
        input=_add(one.input, other.input),
        output=_add(one.output, other.output),
        cache_read=_add(one.cache_read, other.cache_read),
        cache_write=_add(one.cache_write, other.cache_write),
        reasoning=_add(one.reasoning, other.reasoning),
    )


def _add(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


class Start(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="part", tag="start"):
    model: str = ""
    response_id: str = ""


class Text(msgspec.Struct, frozen=True, gc=False, tag_field="part", tag="text"):
    text: str


class ReasoningPart(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="part", tag="reasoning"):
    """A fragment of thinking. A new `block` starts a new Reasoning; signature and opaque fragments append too."""

    text: str = ""
    block: int = 0
    signature: str = ""
    opaque: str = ""


class ToolCallStart(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="part", tag="tool-call-start"
):
    """As the wire says it: any of index, id and name may be missing. The kernel's assembly sorts them out (P9)."""

    index: int | None = None
    id: str = ""
    name: str = ""
    signature: str = ""


class ToolCallArguments(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="part", tag="tool-call-args"
):
    fragment: str
    index: int | None = None
    id: str = ""


class ToolCallEnd(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="part", tag="tool-call-end"
):
    index: int | None = None
    id: str = ""
    arguments: str | None = None
    """The whole text of the arguments where the provider repeats it at the end; it replaces the fragments."""


class UsagePart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="part", tag="usage"):
    """May come more than once; per field the last value that is not None wins."""

    usage: Usage
    reported: Usage
    """As the provider counts: its own idea of what input and output include."""
    cost_usd: float | None = None


class Finish(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="part", tag="finish"):
    """The provider's reason for ending the reply."""

    raw: str
    finish: FinishClass
    is_broken_call: bool = False
    """The model began a call, and the provider could not make one of what it wrote."""


class Done(msgspec.Struct, frozen=True, gc=False, tag_field="part", tag="done"):
    """A terminal frame that is not a reason (`[DONE]`, `message_stop`)."""


class Refusal(msgspec.Struct, frozen=True, gc=False, tag_field="part", tag="refusal"):
    """Words of a refusal, sent apart from the text."""

    text: str


class StreamError(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="part", tag="error"
):
    """An error that the provider reported, in the body or by status."""

    kind: ErrorKind
    message: str
    status: int | None = None
    code: str = ""
    no_tools: bool = False
    """The model, or the server as it was started, takes no tools."""


UNREADABLE = "unreadable"
"""The kind of a Raw that stands for a frame which is no JSON: evidence that a piece of the reply is missing."""
FOREIGN = "foreign"
"""The kind of a Raw that stands for JSON which is not of its dialect: evidence, no content, and nothing is missing."""


class Raw(msgspec.Struct, frozen=True, gc=False, tag_field="part", tag="raw"):
    """A piece that is neither text, reasoning nor a client's call (server tools, pictures): kept, never interpreted."""

    kind: str
    data: str


class Closed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="part", tag="closed"):
    """Always the last part of an attempt: how the bytes ended. The verdict is made from it and what came before."""

    how: Literal["eof", "http_error", "interstitial", "non_json", "stall", "transport", "too_large"]
    status: int | None = None
    stall: StallReason | None = None
    detail: str = ""
    request_id: str = ""
    retry_after_s: float | None = None
    bytes_in: int = 0
    replaced: int = 0
    """Sequences of the reply that are no UTF-8, and were replaced."""
    excerpt: str = ""
    """The first characters of a body that was not what it should be."""
    overflow: bool = False
    """The conversation does not fit the model's window: the provider said so, or its account shows it. The same request
    would fare no better; a shorter one may."""


Part: TypeAlias = (
    Start
    | Text
    | ReasoningPart
    | ToolCallStart
    | ToolCallArguments
    | ToolCallEnd
    | UsagePart
    | Finish
    | Done
    | Refusal
    | StreamError
    | Raw
    | Closed
)
