"""What a guard would have done, from what was recorded (R5). A guard is a fold, so the past can be put to it again: it
sees each fact when, and as, a guard in the running turn saw it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from turnwright.kernel.ports import Continue, Guards, Judgement, Look
from turnwright.kernel.scribe import tripped
from turnwright.schema.facts import (
    AttemptEnded,
    ConversationOpened,
    GuardTripped,
    InboxAdmitted,
    InboxWithdrawn,
    KnownFact,
    Recorded,
    StepStarted,
    Unknown,
)
from turnwright.schema.ids import CallId, ConversationId, Seq, TurnId
from turnwright.session.ports import Journal
from turnwright.session.recorder import with_payload

UNHEARD = (ConversationOpened, InboxAdmitted, InboxWithdrawn, GuardTripped, Unknown)
"""What the guards of a running turn do not see: facts from outside of it, and their own verdicts."""
ENDING = frozenset({"force_answer", "stop"})
"""What comes after one of these in its turn would not have happened."""


class Trip(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A guard speaking up. `seq` is the fact that made it speak."""

    seq: Seq
    guard: str
    verdict: str
    why: str
    turn_id: TurnId | None = None
    call_id: CallId | None = None


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """What was spent in a turn after a guard would have ended it. Unknown costs and counts are left out of the sums."""

    turn_id: TurnId
    after_seq: Seq
    steps: int = 0
    tokens: int = 0
    cost_usd: float = 0.0


class Backtest(msgspec.Struct, frozen=True, kw_only=True):
    conversation_id: ConversationId
    facts: int
    trips: tuple[Trip, ...]
    """What these guards would have said, had the conversation gone as it went."""
    recorded: tuple[Trip, ...]
    """What the guards of that day said."""
    saved: tuple[Saved, ...]

    @property
    def new(self) -> tuple[Trip, ...]:
        """Said now and not then."""
        return _beyond(self.trips, self.recorded)

    @property
    def gone(self) -> tuple[Trip, ...]:
        """Said then and not now."""
        return _beyond(self.recorded, self.trips)


async def backtest(journal: Journal[Any], conversation_id: ConversationId, guards: Guards) -> Backtest:
    """`guards` must be fresh: a fold begins at its beginning."""
    facts = await journal.since(conversation_id)
    whole = [msgspec.structs.replace(each, fact=await with_payload(each.fact, journal)) for each in facts]
    return backtested(conversation_id, whole, guards)


def backtested(conversation_id: ConversationId, facts: Sequence[Recorded], guards: Guards) -> Backtest:
    """The same over facts that are at hand, their payloads in place."""
    trips = tuple(judged(facts, guards))
    return Backtest(
        conversation_id=conversation_id,
        facts=len(facts),
        trips=trips,
        recorded=tuple(_said_then(facts)),
        saved=tuple(_saved(facts, trips)),
    )


def judged(facts: Iterable[Recorded], guards: Guards) -> Iterator[Trip]:
    """As the loop does it."""
    for each in facts:
        fact = each.fact
        if isinstance(fact, UNHEARD):
            continue
        for judgement in guards.judge(fact):
            if not isinstance(judgement, Continue | Look):
                yield _trip(each.seq, fact, judgement)


def _said_then(facts: Iterable[Recorded]) -> Iterator[Trip]:
    """Placed at the fact that was last before: what the guard had just seen."""
    last = 0
    for each in facts:
        match each.fact:
            case GuardTripped() as said:
                yield _told(last, said)
            case _:
                last = each.seq


def _saved(facts: Sequence[Recorded], trips: Sequence[Trip]) -> Iterator[Saved]:
    ends: dict[TurnId, Seq] = {}
    for trip in trips:
        if trip.verdict in ENDING and trip.turn_id is not None:
            ends.setdefault(trip.turn_id, trip.seq)
    for turn_id, after in ends.items():
        later = [each.fact for each in facts if each.seq > after and _turn_of(each.fact) == turn_id]
        attempts = [fact for fact in later if isinstance(fact, AttemptEnded)]
        usages = [fact.usage for fact in attempts if fact.usage is not None]
        yield Saved(
            turn_id=turn_id,
            after_seq=after,
            steps=sum(isinstance(fact, StepStarted) for fact in later),
            tokens=sum((usage.input or 0) + (usage.output or 0) for usage in usages),
            cost_usd=sum(fact.cost_usd or 0.0 for fact in attempts),
        )


def _turn_of(fact: KnownFact | Unknown) -> TurnId | None:
    return None if isinstance(fact, Unknown) else fact.turn_id


def _trip(seq: Seq, fact: KnownFact, judgement: Judgement) -> Trip:
    return _told(seq, tripped(judgement, fact))


def _told(seq: Seq, said: GuardTripped) -> Trip:
    return Trip(
        seq=seq, guard=said.guard, verdict=said.verdict, why=said.why, turn_id=said.turn_id, call_id=said.call_id
    )


def _beyond(some: Iterable[Trip], others: Iterable[Trip]) -> tuple[Trip, ...]:
    """Those of `some` that have no counterpart among the others, each of which counts once."""
    left = Counter(map(_what, others))
    found = []
    for trip in some:
        if left[_what(trip)] > 0:
            left[_what(trip)] -= 1
        else:
            found.append(trip)
    return tuple(found)


def _what(trip: Trip) -> tuple[TurnId | None, str, str, CallId | None, str]:
    return trip.turn_id, trip.guard, trip.verdict, trip.call_id, trip.why
