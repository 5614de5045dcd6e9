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
    """Sample again: a guard wants more than this reply, or another mode follows."""


Decision: TypeAlias = Act | AskAgain | End


def decide(
    message: AssistantMessage, verdict: Verdict, ending: End | None, nudged: bool = False, next_mode: str = ""
) -> Decision:
    """`ending` is the reason for which this was the last step: whatever the model says then, it ends the turn. An
    answer in a mode that another one follows ends that mode alone."""
    if ending is not None:
        return ending
    if nudged:
        return Act(message.calls) if message.calls else AskAgain()
    match verdict:
        case "complete" | "tool_calls" | "malformed_call":
            if message.calls:
                return Act(message.calls)
            if verdict == "malformed_call":
                return End("provider-error", "the model began a tool call that its provider could not make out")
            return AskAgain() if next_mode else End("stop")
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
