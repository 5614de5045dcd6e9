"""What was in flight when a turn was interrupted (R2): per call done, not started or outcome unknown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from turnwright.schema.facts import (
    AttemptEnded,
    AttemptStarted,
    ModelReplied,
    Note,
    Recorded,
    StepStarted,
    SubagentStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from turnwright.schema.ids import CallId, ConversationId
from turnwright.schema.verdicts import Effect, Idempotency
from turnwright.views.arguments import brief
from turnwright.views.text import Line, Span, Style, clip, line, one_line, plural, when

CallState: TypeAlias = Literal["done", "not-started", "unknown"]


class CallInFlight(msgspec.Struct, frozen=True, kw_only=True):
    """`may_repeat` only where the call had started and does nothing to the world."""

    call_id: CallId
    name: str
    arguments: str = ""
    state: CallState = "not-started"
    outcome: str | None = None
    effect: Effect | None = None
    idempotency: Idempotency | None = None
    subagent: ConversationId | None = None
    """The conversation that it had sent: what was in flight there, that one tells."""

    @property
    def may_repeat(self) -> bool:
        return self.state == "unknown" and self.idempotency == "repeatable"


class AttemptInFlight(msgspec.Struct, frozen=True, kw_only=True):
    attempt: int
    route: str
    purpose: str


class InFlight(msgspec.Struct, frozen=True, kw_only=True):
    """A turn without an end. `steps` counts those that began; `attempt` was sent and never answered."""

    conversation_id: ConversationId
    turn_id: str
    text: str
    last_at: int
    last_seq: int
    step_id: str = ""
    steps: int = 0
    replied: bool = False
    attempt: AttemptInFlight | None = None
    calls: tuple[CallInFlight, ...] = ()


def fold_in_flight(state: InFlight | None, recorded: Recorded) -> InFlight | None:
    """None while nothing is in flight."""
    fact = recorded.fact
    match fact:
        case TurnStarted():
            text = state.text if state is not None and fact.continued else fact.text
            return InFlight(
                conversation_id=recorded.conversation_id,
                turn_id=fact.turn_id or "",
                text=text,
                last_at=recorded.at,
                last_seq=recorded.seq,
            )
        case TurnEnded():
            return None
        case _ if state is None:
            return None
        case _:
            return replace(_within(state, recorded), last_at=recorded.at, last_seq=recorded.seq)


def _within(state: InFlight, recorded: Recorded) -> InFlight:
    fact = recorded.fact
    match fact:
        case StepStarted():
            return replace(
                state,
                step_id=fact.step_id or "",
                steps=state.steps + 1,
                replied=False,
                attempt=None,
                calls=(),
            )
        case AttemptStarted():
            attempt = AttemptInFlight(attempt=fact.attempt, route=fact.route, purpose=fact.purpose)
            return replace(state, attempt=attempt)
        case AttemptEnded() | Note(code="turn-resumed"):
            return replace(state, attempt=None)
        case ModelReplied():
            early = {call.call_id: call for call in state.calls}
            calls = tuple(
                replace(early[call.id], arguments=call.arguments)
                if call.id in early
                else CallInFlight(call_id=call.id, name=call.name, arguments=call.arguments)
                for call in fact.message.calls
            )
            # Calls of an attempt that was given up had started too: they stay in sight until they end.
            wanted = {call.call_id for call in calls}
            orphans = tuple(call for call in state.calls if call.call_id not in wanted)
            return replace(state, replied=True, calls=orphans + calls)
        case ToolStarted():
            started = CallInFlight(
                call_id=fact.call_id or "",
                name=fact.name,
                arguments=fact.arguments,
                state="unknown",
                effect=fact.effect,
                idempotency=fact.idempotency,
            )
            return replace(state, calls=_with(state.calls, started))
        case SubagentStarted():
            call = {call.call_id: call for call in state.calls}.get(fact.call_id or "")
            if call is None:
                return state
            return replace(state, calls=_with(state.calls, replace(call, subagent=fact.conversation)))
        case ToolEnded():
            known = {call.call_id: call for call in state.calls}.get(fact.call_id or "")
            ended = known or CallInFlight(call_id=fact.call_id or "", name=fact.name)
            return replace(state, calls=_with(state.calls, _over(ended, fact)))
        case _:
            return state


def _over(call: CallInFlight, fact: ToolEnded) -> CallInFlight:
    """An end that says "unknown" is no end."""
    if fact.outcome == "unknown":
        return replace(call, state="unknown", outcome=fact.outcome)
    return replace(call, state="done", outcome=fact.outcome)


def _with(calls: tuple[CallInFlight, ...], changed: CallInFlight) -> tuple[CallInFlight, ...]:
    if any(call.call_id == changed.call_id for call in calls):
        return tuple(changed if call.call_id == changed.call_id else call for call in calls)
    return (*calls, changed)


def in_flight_lines(state: InFlight, columns: int = 100) -> Iterator[Line]:
    where = f"in step {one_line(state.step_id)}" if state.step_id else "before its first step"
    yield line(
        Span(one_line(state.conversation_id), "heading"),
        f" was interrupted {where}, after fact {state.last_seq} ({when(state.last_at)}).",
    )
    if state.text:
        yield line(Span("  asked: ", "dim"), clip(one_line(state.text), columns - 9))
    if state.attempt is not None:
        yield line(
            f"  The model was being asked ({one_line(state.attempt.route)}, attempt {state.attempt.attempt}); "
            "no answer of it was kept. It can be asked again."
        )
    elif not state.replied and not state.calls:
        yield line("  Nothing was under way: it carries on from here.")
    if state.calls:
        yield line(f"  {plural(len(state.calls), 'tool call')} of that step:")
    for call in state.calls:
        said, style = _said(call)
        head = clip(f"{one_line(call.name)} {brief(call.arguments, 60)}", max(10, columns - len(said) - 6))
        yield line("    ", Span(said, style), "  ", head)
        if call.subagent is not None:
            yield line(f"      its subagent: turnwright resume {one_line(call.subagent)}")


def _said(call: CallInFlight) -> tuple[str, Style]:
    if call.state == "done":
        return f"done ({call.outcome})", "good"
    if call.state == "not-started":
        return "not started", "dim"
    if call.may_repeat:
        return "outcome unknown, may be repeated", "warn"
    return "outcome unknown, look first", "bad"
