"""The last line of a run: `{"type": "result", ...}` (U1)."""

from __future__ import annotations

from typing import Literal, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from turnwright.schema.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    AttemptEnded,
    Recorded,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from turnwright.schema.ids import ConversationId
from turnwright.schema.parts import Usage
from turnwright.schema.verdicts import GOOD_VERDICTS, StopReason
from turnwright.views.elapsed import Elapsed, fold_elapsed
from turnwright.views.faults import hint_for

T = TypeVar("T")
Estimate: TypeAlias = Literal["usage", "cost"]
PACE_MS_MIN = 100.0
"""What came in less time says nothing about speed."""


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """A question that nobody could answer, which is a denial."""

    tool: str
    question: str
    call_id: str | None = None
    segment: str = ""
    """The piece of the call that it was about."""
    rule: str = ""
    """The rule, or the level of autonomy, that asked."""


class Result(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="result"):
    """`is_error` exactly where the exit code is not 0. `cost_usd` None is unknown, never free."""

    conversation_id: ConversationId
    reason: StopReason
    is_error: bool
    text: str
    usage: Usage
    cost_usd: float | None
    steps: int
    duration_ms: float
    detail: str = ""
    """Why it ended early, in a sentence."""
    remedy: str = ""
    """What can be done where the provider failed, or a budget was too small."""
    denials: tuple[Denial, ...] = ()
    tokens_per_s: float | None = None
    """Of the replies, from their first words on. None where too little came to tell."""
    estimated: tuple[Estimate, ...] = ()
    """What is not as the provider said it: `usage` is a lower bound where some reply came without it, `cost` was
    reckoned from a price."""


class Pace(msgspec.Struct, frozen=True):
    tokens: int = 0
    ms: float = 0.0

    @property
    def tokens_per_s(self) -> float | None:
        return round(self.tokens / self.ms * 1000, 1) if self.ms >= PACE_MS_MIN else None


class ResultState(msgspec.Struct, frozen=True):
    elapsed: Elapsed | None = None
    pace: Pace = Pace()
    estimated: frozenset[Estimate] = frozenset()
    tools: dict[str, str] = {}
    """The names of the calls that run."""
    asked: dict[str, ApprovalAsked] = {}
    denials: tuple[Denial, ...] = ()
    remedy: str = ""
    """For what became of the last attempt."""
    result: Result | None = None


def fold_result(state: ResultState, recorded: Recorded) -> ResultState:
    """`result` is that of the last turn that ended; None while a turn runs."""
    fact = recorded.fact
    state = replace(state, elapsed=fold_elapsed(state.elapsed, recorded))
    match fact:
        case TurnStarted():
            return ResultState(elapsed=state.elapsed)
        case AttemptEnded():
            return replace(_measured(state, fact), remedy=hint_for(fact))
        case ToolStarted():
            return replace(state, tools=state.tools | {fact.call_id or "": fact.name})
        case ToolEnded():
            return replace(state, tools=_without(state.tools, fact.call_id or ""))
        case ApprovalAsked():
            return replace(state, asked=state.asked | {fact.approval_id: fact})
        case ApprovalAnswered():
            denied = (_denial(state, fact),) if fact.by == "nobody" else ()
            return replace(state, asked=_without(state.asked, fact.approval_id), denials=state.denials + denied)
        case TurnEnded():
            return replace(state, result=_result(state, recorded.conversation_id, fact))
        case _:
            return state


def _measured(state: ResultState, fact: AttemptEnded) -> ResultState:
    found: set[Estimate] = {"cost"} if fact.cost_estimated else set()
    if fact.usage is None and fact.verdict in GOOD_VERDICTS:
        found.add("usage")
    pace, decode_ms = state.pace, fact.timing.decode_ms
    if fact.usage is not None and fact.usage.output and decode_ms:
        pace = Pace(pace.tokens + fact.usage.output, pace.ms + decode_ms)
    return replace(state, pace=pace, estimated=state.estimated | found)


def is_error(reason: StopReason) -> bool:
    return reason != "stop"


def encode_result(result: Result) -> bytes:
    return msgspec.json.encode(result)


def _result(state: ResultState, conversation_id: ConversationId, fact: TurnEnded) -> Result:
    return Result(
        conversation_id=conversation_id,
        reason=fact.reason,
        is_error=is_error(fact.reason),
        text=fact.text,
        usage=fact.usage,
        cost_usd=fact.cost_usd,
        steps=fact.steps,
        duration_ms=state.elapsed.ms if state.elapsed is not None else 0.0,
        detail=fact.detail,
        remedy=_remedy(state, conversation_id, fact.reason),
        denials=state.denials,
        tokens_per_s=state.pace.tokens_per_s,
        estimated=tuple(sorted(state.estimated)),
    )


def _remedy(state: ResultState, conversation_id: ConversationId, reason: StopReason) -> str:
    match reason:
        case "provider-error":
            return state.remedy
        case "cost-budget":
            return f"Raise it: turnwright resume {conversation_id} --continue --max-cost USD"
        case "token-budget":
            return f"Raise it: turnwright resume {conversation_id} --continue --max-tokens N"
        case "needs-user" if any(denial.rule for denial in state.denials):
            return "Allow it beforehand with --autonomy or permissions.rules, or run it where somebody can answer."
        case _:
            return ""


def _denial(state: ResultState, fact: ApprovalAnswered) -> Denial:
    asked = state.asked.get(fact.approval_id)
    call_id = fact.call_id or (asked.call_id if asked else None)
    tool = asked.tool if asked else ""
    return Denial(
        tool=tool or state.tools.get(call_id or "", ""),
        question=asked.question if asked else "",
        call_id=call_id,
        segment=fact.segment,
        rule=fact.rule,
    )


def _without(kept: dict[str, T], key: str) -> dict[str, T]:
    return {name: value for name, value in kept.items() if name != key}
