"""What happens after a reply. One pure function over closed unions."""

from __future__ import annotations

from typing import TypeAlias, assert_never

import msgspec

from turnwright.schema.messages import AssistantMessage, ToolCall
from turnwright.schema.verdicts import StopReason, Verdict


class Act(msgspec.Struct, frozen=True):
    """Run the calls, then sample again."""

    calls: tuple[ToolCall, ...]


class End(msgspec.Struct, frozen=True):
    """The turn is over."""

    reason: StopReason
    detail: str = ""


class AskAgain(msgspec.Struct, frozen=True):
    """Sample again: a guard wants more than this reply, and has said so to the model."""


Decision: TypeAlias = Act | AskAgain | End


def decide(message: AssistantMessage, verdict: Verdict, ending: End | None, nudged: bool = False) -> Decision:
    """`ending` is the reason for which this was the last step: whatever the model says then, it ends the turn."""
    if ending is not None:
        return ending
    if nudged:
        return Act(message.calls) if message.calls else AskAgain()
    match verdict:
        case "complete" | "tool_calls" | "malformed_call":
            return Act(message.calls) if message.calls else End("stop")
        case "length":
            return End("length", "the provider cut the reply at its output limit")
        case "refused":
            return End("refused", "the model or its provider refused")
        case "reasoning_only":
            return End("provider-error", "the model sent reasoning and no answer")
        case "empty":
            return End("provider-error", "the model sent an empty answer")
        case "truncated" | "in_band_error" | "interstitial" | "non_json" | "stall" | "http_error" | "transport":
            return End("provider-error", f"the attempt failed: {verdict}")
        case "cancelled":
            return End("cancelled")
        case _:
            assert_never(verdict)
