"""The facts of one run of the loop, in order: what is recorded now must be what was recorded then, and what happened to
the loop from outside happens to it again, at the same place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NoReturn, TypeVar

from turnwright.schema.errors import JournalError
from turnwright.schema.facts import (
    AttemptEnded,
    AttemptStarted,
    ConversationOpened,
    Fact,
    GuardTripped,
    InboxAdmitted,
    InboxWithdrawn,
    ModelReplied,
    Note,
    Recorded,
    SteeringDelivered,
    StepStarted,
    SubagentEnded,
    SubagentStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Unknown,
    WorkspaceSaved,
)
from turnwright.schema.ids import CallId, Seq
from turnwright.schema.tools import PERMISSION_NOTES
from turnwright.schema.verdicts import StopReason
from turnwright.session.cancel import Cancellation
from turnwright.session.replay.clock import RecordedClock
from turnwright.views.divergence import Divergence, difference

Kind = TypeVar("Kind", bound=Fact)

OUTSIDE = (ConversationOpened, InboxAdmitted, InboxWithdrawn, WorkspaceSaved, Unknown)
"""Facts that others than the loop record while it runs: taken over as they are."""
NOTES_OF_THE_LOOP = frozenset(
    {"turn-resumed", "wrap-up", "alert", "prefix-changed", "compaction-failed", "budget-warning", "mode-told"}
    | PERMISSION_NOTES
    | {"tier", "tiers-off", "tier-warning"}
)
INTERRUPTIONS: frozenset[StopReason] = frozenset({"cancelled", "idle-timeout", "step-timeout", "wall-timeout"})
"""What ends a turn from outside of its own order of things."""
TASK_CANCELLED = "the task that ran the turn was cancelled"


class Diverged(JournalError):
    """What is recorded now is not what was recorded then. Nothing more may be done, as with a journal that broke."""

    def __init__(self, found: Divergence) -> None:
        super().__init__(f"{found.conversation_id}:{found.seq} differs", remedy="")
        self.found = found


class Died(JournalError):
    """The process that made the recording died here."""

    def __init__(self) -> None:
        super().__init__("the recording ends here", remedy="")


class Tape:
    """`kernel.ports.Record`. `facts` have their payloads in place. Where the last is no `turn.ended`, the process that
    recorded them died."""

    def __init__(self, facts: Sequence[Recorded], clock: RecordedClock, cancel: Cancellation) -> None:
        self.facts = [each for each in facts if not is_outside(each.fact)]
        self.clock = clock
        self.cancel = cancel
        self.at = 0
        """The place of the next fact to be recorded."""
        self.moves = 0
        """Grows whenever anything happens: what does not grow is stuck."""
        self._task: asyncio.Task[object] | None = None
        self._listeners: list[Callable[[], None]] = []

    def running_in(self, task: asyncio.Task[object]) -> None:
        self._task = task

    def on_commit(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    async def __call__(self, *facts: Fact) -> Sequence[Seq]:
        first = self.at
        for fact in facts:
            if self.at == len(self.facts) and not self.has_end:
                raise Died
            self._compare(fact)
        self.moves += 1
        if self.at:
            self.clock.be_at(self.facts[self.at - 1].at)
        if self.at == len(self.facts) and not self.has_end:
            raise Died
        for listener in self._listeners:
            listener()
        if (end := self.next_is(TurnEnded)) is not None and end.reason in INTERRUPTIONS:
            self.interrupt()
            await asyncio.sleep(0)  # raises here, where the loop is within its bounds already
        return [each.seq for each in self.facts[first : self.at]]

    def _compare(self, fact: Fact) -> None:
        if self.at == len(self.facts):
            last = self.facts[-1]
            raise Diverged(_certain(difference(last.conversation_id, last.seq + 1, None, fact)))
        recorded = self.facts[self.at]
        then = recorded.fact
        assert isinstance(then, Fact), "unknown facts are outside"
        found = difference(recorded.conversation_id, recorded.seq, then, fact)
        if found is not None:
            raise Diverged(found)
        self.at += 1

    # What is to come

    @property
    def has_end(self) -> bool:
        return isinstance(self.facts[-1].fact, TurnEnded)

    @property
    def end(self) -> TurnEnded | None:
        last = self.facts[-1].fact
        return last if isinstance(last, TurnEnded) else None

    def next_is(self, kind: type[Kind]) -> Kind | None:
        """The very next fact, if it is of this kind."""
        if self.at < len(self.facts) and isinstance(fact := self.facts[self.at].fact, kind):
            return fact
        return None

    def coming(self) -> Iterator[tuple[int, Fact]]:
        """Every fact that is not recorded yet, with its place."""
        for place in range(self.at, len(self.facts)):
            fact = self.facts[place].fact
            assert isinstance(fact, Fact), "unknown facts are outside"
            yield place, fact

    def first(self, kind: type[Kind], *, before: tuple[type[Fact], ...] = ()) -> tuple[int, Kind] | None:
        """The next of this kind, unless one of `before` comes first."""
        for place, fact in self.coming():
            if isinstance(fact, kind):
                return place, fact
            if isinstance(fact, before):
                return None
        return None

    def next_attempt(self) -> AttemptStarted | None:
        """Of the step that is being asked for: one step begins at most before it. The reply of the step before it may
        still wait to be recorded, where it called nothing and the turn went on nevertheless."""
        begun = False
        for _, fact in self.coming():
            match fact:
                case AttemptStarted():
                    return fact
                case StepStarted() if begun:
                    return None
                case StepStarted():
                    begun = True
                case ModelReplied() if not begun:
                    pass
                case ModelReplied() | ToolStarted():
                    return None
                case _:
                    pass
        return None

    def retried(self, failed: int) -> AttemptStarted | None:
        """The attempt that follows so many that failed in the same step."""
        found = self.first(AttemptStarted, before=(StepStarted, ModelReplied, TurnEnded))
        return found[1] if found and found[1].attempt == failed + 1 else None

    def gave_up(self) -> str | None:
        """What was said of it when no further attempt was made: of a question beside the turn, or at the turn's end."""
        for _, fact in self.coming():
            match fact:
                case Note(code="compaction-failed", text=text):
                    return text
                case TurnEnded(reason="provider-error", detail=detail):
                    return detail
                case AttemptStarted() | StepStarted():
                    return None
                case _:
                    pass
        return None

    def steering(self) -> SteeringDelivered | None:
        """What was delivered before the step that is about to begin."""
        found = self.first(SteeringDelivered, before=(StepStarted, TurnEnded))
        return found[1] if found else None

    def alerts(self) -> list[str]:
        """Those that followed the attempt that ends now."""
        ended = self.first(AttemptEnded)
        texts: list[str] = []
        for each in self.facts[ended[0] + 1 :] if ended else ():
            match each.fact:
                case Note(code="alert", text=text):
                    texts.append(text)
                case _:
                    break
        return texts

    def end_of(self, call_id: CallId) -> tuple[int, ToolEnded] | None:
        for place, fact in self.coming():
            if isinstance(fact, ToolEnded) and fact.call_id == call_id:
                return place, fact
        return None

    def sent_by(self, call_id: CallId) -> tuple[int, SubagentStarted] | None:
        """The subagent that a call sends, if it does."""
        for place, fact in self.coming():
            match fact:
                case SubagentStarted() if fact.call_id == call_id:
                    return place, fact
                case StepStarted():
                    return None
                case _:
                    pass
        return None

    def subagent_of(self, call_id: CallId) -> tuple[int, SubagentEnded] | None:
        for place, fact in self.coming():
            if isinstance(fact, SubagentEnded) and fact.call_id == call_id:
                return place, fact
        return None

    def is_interrupted(self, call_id: CallId) -> bool:
        """The call has no end of its own."""
        found = self.end_of(call_id)
        return found is None or found[1].outcome == "interrupted"

    def interruption(self) -> int:
        """The place of the first thing that is on record because the turn was stopped."""
        for place, fact in self.coming():
            match fact:
                case ToolEnded(outcome="interrupted") | TurnEnded():
                    return place
                case SubagentEnded(call_id=str(call_id)) if self.has_end and self.is_interrupted(call_id):
                    return place
                case _:
                    pass
        return len(self.facts)

    async def come_to(self, place: int) -> None:
        """What stands before it is on record."""
        await self.until(lambda: self.at >= place)

    async def until(self, ready: Callable[[], bool]) -> None:
        while not ready():
            moves = self.moves
            await asyncio.sleep(0)
            if self.moves == moves and not ready():
                await asyncio.sleep(0.001)

    # What happens to the loop

    def interrupt(self) -> None:
        """Whatever ended the turn then ends it now."""
        self.moves += 1
        end = self.end
        if end is None:
            return  # the process died while this ran; the tape ends by itself
        if end.reason == "cancelled" and end.detail == TASK_CANCELLED:
            assert self._task is not None, "a tape plays in a task"
            self._task.cancel()
        elif end.reason == "cancelled":
            self.cancel.request()
        elif end.reason in INTERRUPTIONS:
            self.clock.run_out(lambda: self._task is not None and self._task.cancelling() > 0)
        elif end.reason == "internal-error":
            raise remade(end.detail)

    async def interrupted(self) -> NoReturn:
        """Wait to be cancelled."""
        self.interrupt()
        await asyncio.Event().wait()
        raise AssertionError("an event that nobody sets")


def is_outside(fact: Fact | Unknown) -> bool:
    match fact:
        case Note(code=code):
            return code not in NOTES_OF_THE_LOOP
        case _:
            return isinstance(fact, OUTSIDE)


def remade(detail: str) -> Exception:
    """The error that ended a turn, as its record names it: what raised it was a port, whose failure is played again."""
    name, _, message = detail.partition(": ")
    kind = type(name if name.isidentifier() else "Error", (Exception,), {})
    error: Exception = kind(message)
    return error


def trips(facts: Iterable[Fact]) -> list[list[GuardTripped]]:
    """What the guards said, by the fact that it was said about: the last one before, of the same step."""
    seen: list[Fact] = []
    said: list[list[GuardTripped]] = []
    for fact in facts:
        if not isinstance(fact, GuardTripped):
            seen.append(fact)
            said.append([])
            continue
        where = fact.turn_id, fact.step_id
        at = next((n for n in range(len(seen) - 1, -1, -1) if (seen[n].turn_id, seen[n].step_id) == where), None)
        if at is not None:
            said[at].append(fact)
    return said


def _certain(found: Divergence | None) -> Divergence:
    assert found is not None, "something and nothing differ"
    return found
