"""What a conversation cost and how long it took: per step, per turn, in all, by purpose (K12, K13, V5).

The sums of a turn follow the same rule as the turn's own limits do, so they equal what `turn.ended` says.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec.structs import replace

from turnwright.schema.facts import (
    AttemptEnded,
    AttemptStarted,
    Recorded,
    StepStarted,
    SubagentEnded,
    ToolEnded,
    TurnEnded,
    TurnStarted,
)
from turnwright.schema.parts import Usage, add_usage
from turnwright.schema.verdicts import GOOD_VERDICTS, StopReason, Verdict
from turnwright.views.elapsed import Elapsed, fold_elapsed
from turnwright.views.fold import Log

METRICS_VERSION = 1


OF_THE_TURN = frozenset({"turn", "probe"})
"""Purposes whose calls are steps of the turn; any other is a helper's call beside it."""
SUBAGENT = "subagent"
"""What is metered as this is what subagents took, whatever they asked their models for; each counts as one call."""


class Meter(msgspec.Struct, frozen=True, kw_only=True):
    """Model calls of one purpose. `cost_usd` is None as soon as one cost is unknown; `unmetered` says that a good
    attempt came without usage, so that `usage` is a lower bound."""

    calls: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    unmetered: bool = False
    context_size: int | None = None
    """Input + output of the last call; never a sum."""


class ToolMetrics(msgspec.Struct, frozen=True, kw_only=True):
    calls: int = 0
    outcomes: dict[str, int] = {}
    duration_ms: float = 0.0
    """Of each call its own, so calls that ran side by side count each; one that shared another's run counts none."""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What is counted alike for a step, a turn and a conversation. Usage and cost are those of
    purpose `turn`, and of subagents."""

    attempts: int = 0
    retries: int = 0
    verdicts: dict[Verdict, int] = {}
    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    context_size: int | None = None
    tools: dict[str, ToolMetrics] = {}
    by_purpose: dict[str, Meter] = {}


class StepMetrics(Tally, frozen=True, kw_only=True):
    """`ttft_ms`, `decode_ms` and `total_ms` are those of the attempt that ended the step's sampling."""

    index: int
    step_id: str = ""
    started_at: int
    start_ms: float
    """From the start of the turn."""
    duration_ms: float = 0.0
    ttft_ms: float | None = None
    decode_ms: float | None = None
    total_ms: float | None = None


class TurnMetrics(Tally, frozen=True, kw_only=True):
    """`reason` and `duration_ms` are None while the turn runs, or when it was interrupted. Time in which its process
    was dead is not counted."""

    turn_id: str
    started_at: int
    step_count: int = 0
    reason: StopReason | None = None
    duration_ms: float | None = None
    steps: tuple[StepMetrics, ...] = ()


class Metrics(Tally, frozen=True, kw_only=True):
    version: int = METRICS_VERSION
    turn_count: int = 0
    step_count: int = 0
    turns: tuple[TurnMetrics, ...] = ()


class _Turn(msgspec.Struct, frozen=True):
    """A turn whose steps still grow."""

    sums: TurnMetrics
    elapsed: Elapsed
    steps: Log[StepMetrics] = Log()
    step: StepMetrics | None = None


class MetricsState(msgspec.Struct, frozen=True):
    total: Metrics = Metrics()
    turns: Log[_Turn] = Log()
    turn: _Turn | None = None


def fold_metrics(state: MetricsState, recorded: Recorded) -> MetricsState:
    fact = recorded.fact
    state = _lasted(state, recorded)
    match fact:
        case TurnStarted():
            turn = _Turn(
                TurnMetrics(turn_id=fact.turn_id or "", started_at=recorded.at),
                Elapsed(started_at=recorded.at, last_at=recorded.at),
            )
            state = _turn_closed(state)
            return replace(state, total=replace(state.total, turn_count=state.total.turn_count + 1), turn=turn)
        case TurnEnded():
            return _turn_closed(_turn_ended(state, fact))
        case StepStarted():
            return _step_started(state, recorded, fact)
        case AttemptStarted() | AttemptEnded() | ToolEnded() | SubagentEnded():
            return _counted_everywhere(state, fact)
        case _:
            return state


def metrics(state: MetricsState) -> Metrics:
    turns = (*state.turns, state.turn) if state.turn is not None else tuple(state.turns)
    return replace(state.total, turns=tuple(_whole(turn) for turn in turns))


def current_turn(state: MetricsState) -> TurnMetrics | None:
    """The sums of the running turn, without its steps: what a status line asks for after every fact."""
    return None if state.turn is None else state.turn.sums


def current_step(state: MetricsState) -> StepMetrics | None:
    return None if state.turn is None else state.turn.step


def encode_metrics(whole: Metrics) -> bytes:
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def metered(meter: Meter, fact: AttemptEnded) -> Meter:
    """One more call. A failed attempt without usage is not charged; a good one without usage makes the sum unknown."""
    meter = replace(meter, calls=meter.calls + 1)
    usage = fact.usage
    if usage is None:
        if fact.verdict in GOOD_VERDICTS:
            return replace(meter, unmetered=True, cost_usd=None, context_size=None)
        return meter
    return replace(
        meter,
        usage=add_usage(meter.usage, usage),
        unmetered=meter.unmetered or usage.input is None or usage.output is None,
        cost_usd=None if meter.cost_usd is None or fact.cost_usd is None else meter.cost_usd + fact.cost_usd,
        context_size=None if usage.input is None or usage.output is None else usage.input + usage.output,
    )


T = TypeVar("T", bound=Tally)


def _counted(tally: T, fact: AttemptStarted | AttemptEnded | ToolEnded | SubagentEnded, is_retry: bool) -> T:
    match fact:
        case AttemptStarted():
            if fact.purpose not in OF_THE_TURN:
                return tally
            return replace(tally, attempts=tally.attempts + 1, retries=tally.retries + is_retry)
        case AttemptEnded():
            meter = metered(tally.by_purpose.get(fact.purpose, Meter()), fact)
            tally = replace(tally, by_purpose=tally.by_purpose | {fact.purpose: meter})
            if fact.purpose not in OF_THE_TURN:
                return tally
            verdicts = tally.verdicts | {fact.verdict: tally.verdicts.get(fact.verdict, 0) + 1}
            tally = replace(tally, verdicts=verdicts, context_size=meter.context_size)
            return _summed(tally)
        case SubagentEnded():
            known_meter = tally.by_purpose.get(SUBAGENT, Meter())
            meter = Meter(
                calls=known_meter.calls + 1,
                usage=add_usage(known_meter.usage, fact.usage),
                cost_usd=_sum(known_meter.cost_usd, fact.cost_usd),
                unmetered=known_meter.unmetered or fact.unmetered,
            )
            return _summed(replace(tally, by_purpose=tally.by_purpose | {SUBAGENT: meter}))
        case ToolEnded():
            known = tally.tools.get(fact.name, ToolMetrics())
            tool = ToolMetrics(
                calls=known.calls + 1,
                outcomes=known.outcomes | {fact.outcome: known.outcomes.get(fact.outcome, 0) + 1},
                duration_ms=known.duration_ms + (0.0 if "shared_with" in fact.detail else fact.duration_ms),
            )
            return replace(tally, tools=tally.tools | {fact.name: tool})


def _summed(tally: T) -> T:
    """What the turn itself and its subagents took, as its limits count it."""
    usage, cost_usd = Usage(), 0.0
    unknown = False
    for purpose, meter in tally.by_purpose.items():
        if purpose in OF_THE_TURN or purpose == SUBAGENT:
            usage = add_usage(usage, meter.usage)
            unknown |= meter.cost_usd is None
            cost_usd += meter.cost_usd or 0.0
    return replace(tally, usage=usage, cost_usd=None if unknown else cost_usd)


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _counted_everywhere(
    state: MetricsState, fact: AttemptStarted | AttemptEnded | ToolEnded | SubagentEnded
) -> MetricsState:
    turn = state.turn
    is_retry = turn is not None and turn.step is not None and turn.step.attempts > 0
    state = replace(state, total=_counted(state.total, fact, is_retry))
    if turn is None:
        return state
    turn = replace(turn, sums=_counted(turn.sums, fact, is_retry))
    if turn.step is not None:
        step = _counted(turn.step, fact, is_retry)
        if isinstance(fact, AttemptEnded) and fact.purpose in OF_THE_TURN:
            timing = fact.timing
            step = replace(step, ttft_ms=timing.ttft_ms, decode_ms=timing.decode_ms, total_ms=timing.total_ms)
        turn = replace(turn, step=step)
    return replace(state, turn=turn)


def _step_started(state: MetricsState, recorded: Recorded, fact: StepStarted) -> MetricsState:
    total = replace(state.total, step_count=state.total.step_count + 1)
    if state.turn is None:
        return replace(state, total=total)
    turn = _step_closed(state.turn)
    step = StepMetrics(index=fact.index, step_id=fact.step_id or "", started_at=recorded.at, start_ms=turn.elapsed.ms)
    turn = replace(turn, sums=replace(turn.sums, step_count=turn.sums.step_count + 1), step=step)
    return replace(state, total=total, turn=turn)


def _lasted(state: MetricsState, recorded: Recorded) -> MetricsState:
    """A step lasts until the next one starts or the turn ends: facts that only report wait for those to be written."""
    turn = state.turn
    if turn is None or isinstance(recorded.fact, TurnStarted):
        return state
    elapsed = fold_elapsed(turn.elapsed, recorded) or turn.elapsed
    step = turn.step
    if step is not None:
        step = replace(step, duration_ms=elapsed.ms - step.start_ms)
    return replace(state, turn=replace(turn, elapsed=elapsed, step=step))


def _turn_ended(state: MetricsState, fact: TurnEnded) -> MetricsState:
    if state.turn is None:
        return state
    sums = replace(state.turn.sums, reason=fact.reason, duration_ms=state.turn.elapsed.ms)
    return replace(state, turn=replace(state.turn, sums=sums))


def _turn_closed(state: MetricsState) -> MetricsState:
    if state.turn is None:
        return state
    return replace(state, turns=state.turns.add(_step_closed(state.turn)), turn=None)


def _step_closed(turn: _Turn) -> _Turn:
    return turn if turn.step is None else replace(turn, steps=turn.steps.add(turn.step), step=None)


def _whole(turn: _Turn) -> TurnMetrics:
    return replace(turn.sums, steps=tuple(_step_closed(turn).steps))
