"""The tree turn -> step -> attempt or tool, with times, gaps, tokens, cost and verdicts (V2).

Times are milliseconds from the start of the turn, without the time in which its process was dead. Durations of attempts
and tools are what was measured where they ran; a start is on record when it happens, an end only with the next start,
so gaps are counted from measured ends.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from turnwright.schema.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    AttemptEnded,
    AttemptFault,
    AttemptStarted,
    ContextCompacted,
    ConversationOpened,
    GuardTripped,
    ModeChanged,
    ModelReplied,
    Note,
    Recorded,
    RouteSwitched,
    SteeringDelivered,
    StepStarted,
    SubagentEnded,
    SubagentStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from turnwright.schema.ids import ConversationId
from turnwright.schema.parts import Usage
from turnwright.schema.verdicts import Effect, FinishClass, StopReason, Verdict
from turnwright.views.elapsed import Elapsed, fold_elapsed
from turnwright.views.fold import Log

TIMELINE_VERSION = 1


class AttemptSpan(msgspec.Struct, frozen=True, kw_only=True, tag_field="span", tag="attempt"):
    """`verdict` is None while it runs, or when nobody saw its end. `gap_ms` is the wait before it."""

    attempt: int
    route: str
    purpose: str
    start_ms: float
    gap_ms: float = 0.0
    duration_ms: float | None = None
    ttft_ms: float | None = None
    decode_ms: float | None = None
    verdict: Verdict | None = None
    finish: FinishClass | None = None
    finish_raw: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    fault: AttemptFault | None = None
    request_id: str = ""
    model: str = ""
    bytes_in: int = 0
    repairs: tuple[str, ...] = ()


class ToolSpan(msgspec.Struct, frozen=True, kw_only=True, tag_field="span", tag="tool"):
    """`outcome` is None while it runs, or when nobody saw its end."""

    call_id: str
    name: str
    arguments: str = ""
    effect: Effect | None = None
    start_ms: float
    gap_ms: float = 0.0
    duration_ms: float | None = None
    outcome: str | None = None
    detail: dict[str, str | int | float | bool | None] = {}
    subagent: ConversationId | None = None
    """The conversation that it sent; `usage` and `cost_usd` are what that took."""
    usage: Usage | None = None
    cost_usd: float | None = None


class Mark(msgspec.Struct, frozen=True, kw_only=True, tag_field="span", tag="mark"):
    """A moment: a guard, steering, a switch, a question."""

    what: Literal["guard", "steering", "mode", "route", "compaction", "asked", "answered", "note"]
    text: str
    start_ms: float
    gap_ms: float = 0.0
    """How long the process was dead before it, where a turn was resumed; that time is in no other number."""


Child: TypeAlias = AttemptSpan | ToolSpan | Mark


class StepSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A step lasts until the next one starts or the turn ends."""

    index: int
    step_id: str
    mode: str
    tools_offered: bool
    start_ms: float
    duration_ms: float = 0.0
    verdict: Verdict | None = None
    children: tuple[Child, ...] = ()


class TurnSpan(msgspec.Struct, frozen=True, kw_only=True):
    """`reason` is None while it runs, or when it was interrupted."""

    turn_id: str
    text: str
    continued: bool
    started_at: int
    task_class: str = ""
    """What the request is about, with `task_signals` that speak for it; empty where nothing does."""
    task_signals: tuple[str, ...] = ()
    duration_ms: float | None = None
    reason: StopReason | None = None
    detail: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = None
    context_size: int | None = None
    before: tuple[Child, ...] = ()
    """What happened in the turn outside its steps."""
    steps: tuple[StepSpan, ...] = ()


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    version: int = TIMELINE_VERSION
    conversation_id: str = ""
    workspace: str = ""
    model: str = ""
    turns: tuple[TurnSpan, ...] = ()


class _Turn(msgspec.Struct, frozen=True):
    span: TurnSpan
    elapsed: Elapsed
    loose: Log[Child] = Log()
    steps: Log[StepSpan] = Log()
    step: StepSpan | None = None
    ended_ms: float = 0.0
    """Where the last attempt or tool ended: the next one's gap starts here."""
    dead_ms: int = 0
    """How long the process was dead just before the fact in hand."""


class TimelineState(msgspec.Struct, frozen=True):
    head: Timeline = Timeline()
    turns: Log[_Turn] = Log()
    turn: _Turn | None = None


def fold_timeline(state: TimelineState, recorded: Recorded) -> TimelineState:
    fact = recorded.fact
    match fact:
        case ConversationOpened():
            head = replace(
                state.head,
                conversation_id=recorded.conversation_id,
                workspace=fact.workspace,
                model=fact.model,
            )
            return replace(state, head=head)
        case TurnStarted():
            span = TurnSpan(
                turn_id=fact.turn_id or "",
                text=fact.text,
                continued=fact.continued,
                started_at=recorded.at,
                task_class=fact.task_class,
                task_signals=fact.task_signals,
            )
            elapsed = Elapsed(started_at=recorded.at, last_at=recorded.at)
            return replace(_turn_closed(state), turn=_Turn(span, elapsed))
        case _ if state.turn is None:
            return state
        case TurnEnded():
            turn = _turn_ended(_lasted(state.turn, recorded), fact)
            return _turn_closed(replace(state, turn=turn))
        case _:
            return replace(state, turn=_within(_lasted(state.turn, recorded), recorded))


def timeline(state: TimelineState) -> Timeline:
    turns = (*state.turns, state.turn) if state.turn is not None else tuple(state.turns)
    return replace(state.head, turns=tuple(_whole(turn) for turn in turns))


def encode_timeline(whole: Timeline) -> bytes:
    return msgspec.json.encode(whole)


def _within(turn: _Turn, recorded: Recorded) -> _Turn:
    fact, at_ms = recorded.fact, turn.elapsed.ms
    match fact:
        case StepStarted():
            step = StepSpan(
                index=fact.index,
                step_id=fact.step_id or "",
                mode=fact.mode,
                tools_offered=fact.tools_offered,
                start_ms=at_ms,
            )
            return replace(_step_closed(turn), step=step)
        case AttemptStarted():
            attempt = AttemptSpan(
                attempt=fact.attempt,
                route=fact.route,
                purpose=fact.purpose,
                start_ms=at_ms,
                gap_ms=max(0.0, at_ms - turn.ended_ms),
            )
            return _put(turn, attempt)
        case AttemptEnded():
            return _attempt_ended(turn, fact)
        case ModelReplied() if turn.step is not None:
            return replace(turn, step=replace(turn.step, verdict=fact.verdict))
        case ToolStarted():
            tool = ToolSpan(
                call_id=fact.call_id or "",
                name=fact.name,
                arguments=fact.arguments,
                effect=fact.effect,
                start_ms=at_ms,
                gap_ms=max(0.0, at_ms - turn.ended_ms),
            )
            return _put(turn, tool)
        case ToolEnded():
            return _tool_ended(turn, fact)
        case SubagentStarted():
            return _with_subagent(turn, fact.call_id, subagent=fact.conversation)
        case SubagentEnded():
            return _with_subagent(turn, fact.call_id, usage=fact.usage, cost_usd=fact.cost_usd)
        case Note(code="turn-resumed"):
            said = Mark(what="note", text=f"{fact.code}: {fact.text}", start_ms=at_ms, gap_ms=float(turn.dead_ms))
            return _until(_put(turn, said), at_ms)
        case _:
            mark = _mark(recorded, at_ms)
            return turn if mark is None else _put(turn, mark)


def _condensed(fact: ContextCompacted) -> str:
    done = f"through fact {fact.through_seq}" if fact.digest else f"output of {len(fact.stubbed)} calls left out"
    if fact.tokens_before is None or fact.tokens_after is None:
        return done
    return f"{done}, {fact.tokens_before} → {fact.tokens_after} tokens"


def _mark(recorded: Recorded, at_ms: float) -> Mark | None:
    fact = recorded.fact
    match fact:
        case GuardTripped():
            return Mark(what="guard", text=f"{fact.guard} {fact.verdict}: {fact.why}", start_ms=at_ms)
        case SteeringDelivered():
            return Mark(what="steering", text=fact.text, start_ms=at_ms)
        case ModeChanged():
            return Mark(what="mode", text=f"{fact.before} → {fact.after}: {fact.reason}", start_ms=at_ms)
        case RouteSwitched():
            return Mark(what="route", text=f"{fact.before} → {fact.after}: {fact.reason}", start_ms=at_ms)
        case ContextCompacted():
            return Mark(what="compaction", text=_condensed(fact), start_ms=at_ms)
        case ApprovalAsked():
            return Mark(what="asked", text=fact.question, start_ms=at_ms)
        case ApprovalAnswered():
            return Mark(what="answered", text=f"{fact.answer} (by {fact.by})", start_ms=at_ms)
        case Note(code="permitted"):
            return None  # for the record: the call stands right behind it
        case Note():
            return Mark(what="note", text=f"{fact.code}: {fact.text}", start_ms=at_ms)
        case _:
            return None


def _attempt_ended(turn: _Turn, fact: AttemptEnded) -> _Turn:
    total_ms = fact.timing.total_ms
    for child in reversed(_children(turn)):
        if isinstance(child, AttemptSpan) and child.verdict is None and child.attempt == fact.attempt:
            return _until(_swap(turn, child, _ended(child, fact)), child.start_ms + total_ms)
    start_ms = max(0.0, turn.elapsed.ms - total_ms)
    alone = AttemptSpan(attempt=fact.attempt, route=fact.route, purpose=fact.purpose, start_ms=start_ms)
    return _until(_put(turn, _ended(alone, fact)), start_ms + total_ms)


def _ended(span: AttemptSpan, fact: AttemptEnded) -> AttemptSpan:
    return replace(
        span,
        route=fact.route,
        duration_ms=fact.timing.total_ms,
        ttft_ms=fact.timing.ttft_ms,
        decode_ms=fact.timing.decode_ms,
        verdict=fact.verdict,
        finish=fact.finish,
        finish_raw=fact.finish_raw,
        usage=fact.usage,
        cost_usd=fact.cost_usd,
        fault=fact.fault,
        request_id=fact.request_id,
        model=fact.model,
        bytes_in=fact.bytes_in,
        repairs=fact.repairs,
    )


def _tool_ended(turn: _Turn, fact: ToolEnded) -> _Turn:
    call_id = fact.call_id or ""
    for child in reversed(_children(turn)):
        if isinstance(child, ToolSpan) and child.outcome is None and child.call_id == call_id:
            ended = replace(child, duration_ms=fact.duration_ms, outcome=fact.outcome, detail=fact.detail)
            return _until(_swap(turn, child, ended), child.start_ms + fact.duration_ms)
    twin = next(
        (
            child
            for child in reversed(_children(turn))
            if isinstance(child, ToolSpan) and child.call_id == fact.detail.get("shared_with")
        ),
        None,
    )
    alone = ToolSpan(
        call_id=call_id,
        name=fact.name,
        arguments="" if twin is None else twin.arguments,
        effect=None if twin is None else twin.effect,
        start_ms=max(0.0, turn.elapsed.ms - fact.duration_ms) if twin is None else twin.start_ms,
        duration_ms=fact.duration_ms,
        outcome=fact.outcome,
        detail=fact.detail,
    )
    return _put(turn, alone)


def _with_subagent(turn: _Turn, call_id: str | None, **known: Any) -> _Turn:
    for child in reversed(_children(turn)):
        if isinstance(child, ToolSpan) and child.call_id == call_id:
            return _swap(turn, child, replace(child, **known))
    return turn


def _children(turn: _Turn) -> tuple[Child, ...]:
    return () if turn.step is None else turn.step.children


def _put(turn: _Turn, child: Child) -> _Turn:
    if turn.step is None:
        return replace(turn, loose=turn.loose.add(child))
    return replace(turn, step=replace(turn.step, children=(*turn.step.children, child)))


def _swap(turn: _Turn, old: Child, new: Child) -> _Turn:
    if turn.step is None:
        raise AssertionError("a child of no step cannot be changed")
    children = tuple(new if child is old else child for child in turn.step.children)
    return replace(turn, step=replace(turn.step, children=children))


def _until(turn: _Turn, end_ms: float) -> _Turn:
    return replace(turn, ended_ms=max(turn.ended_ms, end_ms))


def _lasted(turn: _Turn, recorded: Recorded) -> _Turn:
    elapsed = fold_elapsed(turn.elapsed, recorded) or turn.elapsed
    step = turn.step
    if step is not None:
        step = replace(step, duration_ms=elapsed.ms - step.start_ms)
    return replace(turn, elapsed=elapsed, step=step, dead_ms=elapsed.dead_ms - turn.elapsed.dead_ms)


def _turn_ended(turn: _Turn, fact: TurnEnded) -> _Turn:
    span = replace(
        turn.span,
        duration_ms=turn.elapsed.ms,
        reason=fact.reason,
        detail=fact.detail,
        usage=fact.usage,
        cost_usd=fact.cost_usd,
        context_size=fact.context_size,
    )
    return replace(turn, span=span)


def _step_closed(turn: _Turn) -> _Turn:
    return turn if turn.step is None else replace(turn, steps=turn.steps.add(turn.step), step=None)


def _turn_closed(state: TimelineState) -> TimelineState:
    if state.turn is None:
        return state
    return replace(state, turns=state.turns.add(_step_closed(state.turn)), turn=None)


def _whole(turn: _Turn) -> TurnSpan:
    return replace(turn.span, before=tuple(turn.loose), steps=tuple(_step_closed(turn).steps))
