"""Turns, steps, attempts and tools as spans with absolute times, for those who draw them: a fold of the facts, as data.

An attempt and a tool last as long as was measured where they ran. A turn that was resumed is one span, and the time in
which its process was dead is in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from turnwright.schema.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    AttemptEnded,
    AttemptStarted,
    ContextCompacted,
    ConversationOpened,
    Fact,
    GuardTripped,
    ModeChanged,
    ModelReplied,
    Note,
    Recorded,
    RouteSwitched,
    SteeringDelivered,
    StepStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Unknown,
)
from turnwright.schema.ids import ConversationId, Seq

SpanKind: TypeAlias = Literal["turn", "step", "attempt", "tool"]

MOMENTS = (
    GuardTripped,
    RouteSwitched,
    ModeChanged,
    ContextCompacted,
    SteeringDelivered,
    ApprovalAsked,
    ApprovalAnswered,
)


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    at: int
    fact: Fact


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """`seq` is that of the fact that began it, `parent` that of the span around it. `end_fact` is None where nobody saw
    its end; it is then taken to last until the last thing that was seen."""

    kind: SpanKind
    conversation_id: ConversationId
    trace_id: bytes
    seq: Seq
    parent: Seq | None
    start_ms: float
    end_ms: float
    start_fact: Fact
    end_fact: Fact | None = None
    reply: ModelReplied | None = None
    """What the model said, of the attempt that delivered it."""
    opened: ConversationOpened | None = None
    route: str = ""
    """Of the last attempt in it."""
    moments: tuple[Moment, ...] = ()

    @property
    def span_id(self) -> bytes:
        return span_id(self.conversation_id, self.seq)


def trace_id(conversation_id: ConversationId, turn_id: str) -> bytes:
    """A turn is a trace. The same turn gives the same one, so that sending it twice makes no second."""
    return blake2b(f"{conversation_id} {turn_id}".encode(), digest_size=16).digest()


def span_id(conversation_id: ConversationId, seq: Seq) -> bytes:
    return blake2b(f"{conversation_id} {seq}".encode(), digest_size=8).digest()


def spans(facts: Iterable[Recorded]) -> list[Span]:
    """In the order of their beginning."""
    drawing = _Drawing()
    for recorded in facts:
        drawing.take(recorded)
    drawing.close_turn(None)
    return sorted(drawing.done, key=lambda span: span.seq)


class _Drawing:
    def __init__(self) -> None:
        self.done: list[Span] = []
        self._opened: ConversationOpened | None = None
        self._turn: Span | None = None
        self._step: Span | None = None
        self._attempt: Span | None = None
        self._tools: dict[str, Span] = {}
        self._last_at = 0

    def take(self, recorded: Recorded) -> None:
        fact = recorded.fact
        match fact:
            case ConversationOpened():
                self._opened = fact
            case TurnStarted():
                self.close_turn(None)
                self._turn = self._begun("turn", recorded, fact)
            case _ if self._turn is None:
                return
            case _:
                self._within_turn(recorded, fact)
        self._last_at = recorded.at

    def _within_turn(self, recorded: Recorded, fact: Fact | Unknown) -> None:
        at = recorded.at
        match fact:
            case StepStarted():
                self._close_step(at)
                self._step = self._begun("step", recorded, fact)
            case AttemptStarted():
                self._close_attempt(None)
                self._attempt = self._begun("attempt", recorded, fact)
            case AttemptEnded():
                self._attempt_ended(fact)
            case ModelReplied():
                self._replied(fact)
            case ToolStarted(call_id=str(call_id)):
                self._tools[call_id] = self._begun("tool", recorded, fact)
            case ToolEnded(call_id=str(call_id)):
                # A call that was refused never started: it is a span without length.
                begun = self._tools.pop(call_id, None) or self._begun("tool", recorded, fact)
                self.done.append(replace(begun, end_ms=begun.start_ms + fact.duration_ms, end_fact=fact))
            case TurnEnded():
                self._last_at = at
                self.close_turn(fact)
            case Note(code="turn-resumed"):
                self._close_attempt(None)
                self._moment(at, fact)
            case Fact() if isinstance(fact, MOMENTS):
                self._moment(at, fact)
            case _:
                pass

    def _begun(self, kind: SpanKind, recorded: Recorded, fact: Fact) -> Span:
        around = self._step or self._turn if kind in ("attempt", "tool") else self._turn if kind == "step" else None
        turn_id = fact.turn_id or ""
        trace = self._turn.trace_id if self._turn and kind != "turn" else trace_id(recorded.conversation_id, turn_id)
        return Span(
            kind=kind,
            conversation_id=recorded.conversation_id,
            trace_id=trace,
            seq=recorded.seq,
            parent=around.seq if around else None,
            start_ms=recorded.at,
            end_ms=recorded.at,
            start_fact=fact,
            opened=self._opened,
            route=fact.route if isinstance(fact, AttemptStarted) else "",
        )

    def _moment(self, at: int, fact: Fact) -> None:
        if self._step is not None:
            self._step = replace(self._step, moments=(*self._step.moments, Moment(at=at, fact=fact)))
        elif self._turn is not None:
            self._turn = replace(self._turn, moments=(*self._turn.moments, Moment(at=at, fact=fact)))

    def _attempt_ended(self, fact: AttemptEnded) -> None:
        if self._attempt is None:
            return
        end_ms = self._attempt.start_ms + fact.timing.total_ms
        self._attempt = replace(self._attempt, end_ms=end_ms, end_fact=fact, route=fact.route)
        if self._turn is not None:
            self._turn = replace(self._turn, route=fact.route)

    def _replied(self, fact: ModelReplied) -> None:
        if self._attempt is not None:
            self._attempt = replace(self._attempt, reply=fact)

    def _close_attempt(self, until: float | None) -> None:
        if self._attempt is not None:
            seen = self._attempt.end_fact is not None
            end_ms = self._attempt.end_ms if seen else max(self._attempt.start_ms, until or self._last_at)
            self.done.append(replace(self._attempt, end_ms=end_ms))
        self._attempt = None

    def _close_step(self, at: int) -> None:
        self._close_attempt(at)
        for begun in self._tools.values():
            self.done.append(replace(begun, end_ms=max(begun.start_ms, at)))
        self._tools = {}
        if self._step is not None:
            self.done.append(replace(self._step, end_ms=at))
        self._step = None

    def close_turn(self, ended: TurnEnded | None) -> None:
        self._close_step(self._last_at)
        if self._turn is not None:
            self.done.append(replace(self._turn, end_ms=self._last_at, end_fact=ended))
        self._turn = None
