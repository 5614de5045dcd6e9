"""Live events: what is happening right now. Never stored, never numbered, never history."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from turnwright.schema.ids import CallId, ConversationId, StepId, TurnId


class Live(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type"):
    conversation_id: ConversationId = ""
    turn_id: TurnId | None = None
    step_id: StepId | None = None


class TextDelta(Live, frozen=True, kw_only=True, tag="text-delta"):
    text: str


class ReasoningDelta(Live, frozen=True, kw_only=True, tag="reasoning-delta"):
    text: str


class ToolArgsDelta(Live, frozen=True, kw_only=True, tag="tool-args-delta"):
    call_id: CallId
    name: str
    fragment: str


class ToolPreview(Live, frozen=True, kw_only=True, tag="tool-preview"):
    """What a call is about to write, as it begins."""

    call_id: CallId
    name: str
    path: str = ""
    lines: tuple[str, ...] = ()
    """The first lines of what is written."""
    more_lines: int = 0
    """How many follow them."""
    old: str = ""
    new: str = ""
    """Where text is replaced: how both begin."""


class ToolOutput(Live, frozen=True, kw_only=True, tag="tool-output"):
    call_id: CallId
    text: str
    stream: Literal["stdout", "stderr"] = "stdout"


class RetryWait(Live, frozen=True, kw_only=True, tag="retry-wait"):
    attempt: int
    delay_s: float
    reason: str


class Heartbeat(Live, frozen=True, kw_only=True, tag="heartbeat"):
    """Every five seconds while a turn runs: what it waits for."""

    step: int
    elapsed_s: float
    waiting_for: str


class TurnSealed(Live, frozen=True, kw_only=True, tag="turn-sealed"):
    """Only after `turn.ended` is durable."""

    reason: str


LiveEvent: TypeAlias = (
    TextDelta | ReasoningDelta | ToolArgsDelta | ToolPreview | ToolOutput | RetryWait | Heartbeat | TurnSealed
)

_encoder = msgspec.json.Encoder()


def encode_live(event: LiveEvent) -> bytes:
    return _encoder.encode(event)
