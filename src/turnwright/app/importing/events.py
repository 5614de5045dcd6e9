"""What another agent's session says, whatever its format: who said what, when, and what its tools gave back.

From here on all formats are one: `facts_of` retells the events as turns and steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from turnwright import __version__
from turnwright.schema.facts import (
    AttemptEnded,
    AttemptStarted,
    BlobRef,
    ContextCompacted,
    ConversationOpened,
    Fact,
    ModelReplied,
    Note,
    SteeringDelivered,
    StepStarted,
    Timing,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from turnwright.schema.ids import TurnId, step_id
from turnwright.schema.messages import AssistantMessage, Image
from turnwright.schema.parts import Usage, add_usage
from turnwright.schema.verdicts import StopReason, Verdict

ROUTE = "imported"
"""Routes of imported attempts begin with it: no route of ours is named so, hence reasoning that is bound to the route
of another agent is never sent on, and no circuit of ours is judged by it."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    at: int
    """UTC milliseconds."""


class Told(Event, frozen=True, kw_only=True):
    """The user's own words."""

    text: str
    images: tuple[Image, ...] = ()
    steering: bool = False
    """Said while the turn ran."""


class Announced(Event, frozen=True, kw_only=True):
    """Words of the other agent's own to its model. On record, never taken for the user's and never sent on."""

    code: str
    text: str


class Answered(Event, frozen=True, kw_only=True):
    message: AssistantMessage
    model: str = ""
    usage: Usage | None = None
    began_at: int


class Returned(Event, frozen=True, kw_only=True):
    """What a tool gave back."""

    call_id: str
    output: str
    failed: bool = False
    images: tuple[Image, ...] = ()


class Digested(Event, frozen=True, kw_only=True):
    """From here on the model saw this in place of everything before."""

    text: str


class Stopped(Event, frozen=True, kw_only=True):
    """The user interrupted the turn."""


AnyEvent: TypeAlias = Told | Announced | Answered | Returned | Digested | Stopped


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One session file, read."""

    agent: str
    """Whose it is: `claude-code`, `codex`."""
    version: str
    session_id: str
    workspace: str
    model: str
    """As Turnwright names it: `provider/model`."""
    title: str
    opened_at: int
    events: tuple[AnyEvent, ...]
    lines: int
    left_out: dict[str, int]
    """Lines that are no part of the conversation as it is retold, by what they are. The file itself is kept whole."""


def facts_of(session: Session, source: BlobRef, new_turn_id: Callable[[int], TurnId]) -> list[tuple[int, Fact]]:
    """Each with its time. `new_turn_id` is asked with the number of the turn, from 1."""
    telling = _Telling(session, new_turn_id)
    telling.add(
        session.opened_at,
        ConversationOpened(
            workspace=session.workspace, model=session.model, turnwright=__version__, title=session.title
        ),
    )
    telling.add(session.opened_at, _origin(session, source))
    for event in session.events:
        telling.tell(event)
    telling.end()
    return telling.facts


def _origin(session: Session, source: BlobRef) -> Note:
    left_out = sum(session.left_out.values())
    program = f"{session.agent} {session.version}".strip()
    said = f"imported from {program}, session {session.session_id}: {session.lines} lines"
    if left_out:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(session.left_out.items()))
        said += f"; {left_out} of them are not retold ({kinds})"
    return Note(
        code="imported",
        text=said,
        data={"agent": session.agent, "version": session.version, "session_id": session.session_id},
        attachment=source,
    )


class _Telling:
    """The turn and the step that are open while events are told."""

    def __init__(self, session: Session, new_turn_id: Callable[[int], TurnId]) -> None:
        self.facts: list[tuple[int, Fact]] = []
        self._session = session
        self._new_turn_id = new_turn_id
        self._turns = 0
        self._turn: TurnEnded | None = None
        self._step_id: str | None = None
        self._calls: dict[str, str] = {}
        """The names of the calls of this turn's last reply that have no result yet, by their ids."""
        self._at = session.opened_at

    def add(self, at: int, fact: Fact) -> None:
        self._at = at or self._at
        self.facts.append((self._at, fact))

    def tell(self, event: AnyEvent) -> None:
        match event:
            case Told(steering=True) if self._turn is not None:
                self.add(event.at, SteeringDelivered(turn_id=self._turn.turn_id, text=event.text, inbox_ids=()))
            case Told():
                self.end()
                self._begin(event.at, event.text, event.images)
            case Announced():
                turn_id = self._turn.turn_id if self._turn is not None else None
                self.add(event.at, Note(turn_id=turn_id, code=event.code, text=event.text))
            case Answered():
                self._answer(event)
            case Returned():
                self._return(event)
            case Digested():
                self.end()
                self.add(event.at, ContextCompacted(through_seq=len(self.facts), digest=event.text))
            case Stopped():
                self.end_turn("cancelled")

    def end(self) -> None:
        """Where calls are open, the user or the process broke off."""
        self.end_turn("cancelled" if self._calls else "stop")

    def end_turn(self, reason: StopReason) -> None:
        if self._turn is not None:
            self.add(self._at, replace(self._turn, reason=reason))
        self._turn, self._step_id = None, None
        self._calls.clear()

    def _begin(self, at: int, text: str = "", images: tuple[Image, ...] = (), *, continued: bool = False) -> TurnEnded:
        self._turns += 1
        turn_id = self._new_turn_id(self._turns)
        self._turn = TurnEnded(turn_id=turn_id, reason="stop")
        self.add(at, TurnStarted(turn_id=turn_id, text=text, images=images, continued=continued))
        return self._turn

    def _answer(self, event: Answered) -> None:
        turn = self._turn or self._begin(event.began_at, continued=True)
        assert turn.turn_id is not None, "a turn of ours has an id"
        step = step_id(turn.turn_id, turn.steps)
        route = f"{ROUTE}/{event.model or 'unknown'}"
        verdict: Verdict = "tool_calls" if event.message.calls else "complete"
        self.add(event.began_at, StepStarted(turn_id=turn.turn_id, step_id=step, index=turn.steps))
        self.add(event.began_at, AttemptStarted(turn_id=turn.turn_id, step_id=step, attempt=1, route=route))
        ended = AttemptEnded(
            turn_id=turn.turn_id,
            step_id=step,
            attempt=1,
            route=route,
            verdict=verdict,
            timing=Timing(total_ms=float(max(0, event.at - event.began_at))),
            usage=event.usage,
            model=event.model,
        )
        self.add(event.at, ended)
        self.add(
            event.at,
            ModelReplied(
                turn_id=turn.turn_id, step_id=step, message=replace(event.message, route=route), verdict=verdict
            ),
        )
        self._step_id = step
        self._calls = {}
        for call in event.message.calls:
            self._calls[call.id] = call.name
            self.add(
                event.at,
                ToolStarted(
                    turn_id=turn.turn_id,
                    step_id=step,
                    call_id=call.id,
                    name=call.name,
                    arguments=call.arguments,
                    effect="runs",
                    idempotency="once",
                ),
            )
        self._turn = replace(
            turn,
            steps=turn.steps + 1,
            usage=add_usage(turn.usage, event.usage or Usage()),
            context_size=_size(event.usage) or turn.context_size,
            text=event.message.text or turn.text,
        )

    def _return(self, event: Returned) -> None:
        name = self._calls.pop(event.call_id, None)
        if name is None or self._turn is None:
            return
        self.add(
            event.at,
            ToolEnded(
                turn_id=self._turn.turn_id,
                step_id=self._step_id,
                call_id=event.call_id,
                name=name,
                outcome="failed" if event.failed else "ok",
                output=event.output,
                images=event.images,
                duration_ms=float(max(0, event.at - self._at)),
            ),
        )


def _size(usage: Usage | None) -> int | None:
    return None if usage is None or usage.input is None else usage.input + (usage.output or 0)


def millis(stamp: str | None) -> int:
    """Of an ISO 8601 time; 0 where there is none that can be read."""
    from datetime import datetime

    try:
        return round(datetime.fromisoformat(stamp).timestamp() * 1000) if stamp else 0
    except ValueError:
        return 0


def counted(kinds: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind in kinds:
        found[kind] = found.get(kind, 0) + 1
    return found
