"""A recorded conversation, run again turn by turn, up to the first fact that is not what it was."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import msgspec

from turnwright.kernel.history import History
from turnwright.kernel.limits import Tally
from turnwright.kernel.loop import Turn, run_turn
from turnwright.kernel.spending import Charge, Spending
from turnwright.schema.facts import (
    AttemptStarted,
    ConversationOpened,
    Fact,
    KnownFact,
    Note,
    Recorded,
    StepStarted,
    TurnEnded,
    TurnStarted,
    Unknown,
)
from turnwright.schema.ids import ConversationId, Seq
from turnwright.schema.limits import rules_of_record
from turnwright.session.cancel import Cancellation
from turnwright.session.conversation import BURIED
from turnwright.session.replay.clock import RecordedClock
from turnwright.session.replay.ports import Before, Bytes, Played, Recording, Rerun, recorded_ports, recording_of
from turnwright.session.replay.tape import Died, Diverged, Tape
from turnwright.views.divergence import Divergence

LOOK_S = 0.5
LOOKS = 4
"""A replay in which nothing has happened for so many looks waits for something that was not recorded."""


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """What came of running a conversation again."""

    conversation_id: ConversationId
    facts: int
    """In the recording."""
    replayed: int
    """Recorded again by the loop, and the same."""
    turns: int
    steps: int
    from_bytes: int
    """Attempts whose recorded bytes went through the codecs again; the others began after them."""
    from_parts: int
    reran: int
    """Tool calls that were executed again."""
    recorded_ms: int
    """From the first fact of each turn to its last."""
    divergence: Divergence | None = None

    @property
    def identical(self) -> bool:
        return self.divergence is None


class _Totals:
    def __init__(self) -> None:
        self.replayed = self.turns = self.steps = self.from_bytes = self.from_parts = self.reran = 0
        self.recorded_ms = 0

    def add(self, tape: Tape, played: Played) -> None:
        done = tape.facts[: tape.at]
        self.replayed += tape.at
        self.turns += bool(done) and isinstance(done[0].fact, TurnStarted)
        self.steps += sum(isinstance(each.fact, StepStarted) for each in done)
        self.from_bytes += played.model.from_bytes
        self.from_parts += played.model.from_parts
        self.reran += played.tools.reran
        self.recorded_ms += done[-1].at - done[0].at if done else 0


async def replay(facts: Sequence[Recorded], *, bytes_of: Bytes | None = None, rerun: Rerun | None = None) -> Replay:
    """`facts` are a whole conversation with its payloads in place. Nothing is opened, sent or written; only `rerun`
    does anything at all."""
    recording, totals = recording_of(facts), _Totals()
    standing, known = Standing(), 0
    divergence: Divergence | None = None
    for begin, end in runs_of(facts):
        standing.take(facts[known:begin])
        tape, divergence = await _played(facts[begin:end], standing, recording, bytes_of, rerun, totals)
        if divergence is not None:
            break
        if tape.has_end:
            standing.go_on(facts[begin:end])
        else:
            standing = Standing()  # what the dead process had noted and not recorded is gone with it
            standing.take(facts[:end])
        known = end
    return Replay(
        conversation_id=facts[0].conversation_id,
        facts=len(facts),
        replayed=totals.replayed,
        turns=totals.turns,
        steps=totals.steps,
        from_bytes=totals.from_bytes,
        from_parts=totals.from_parts,
        reran=totals.reran,
        recorded_ms=totals.recorded_ms,
        divergence=divergence,
    )


def runs_of(facts: Sequence[Recorded]) -> Iterator[tuple[int, int]]:
    """Where the loop began to run and where it left off: at the end of a turn, or where its process died. A turn that
    was carried on has several. What lies between was recorded by others, and is taken over."""
    begin: int | None = None
    for place, each in enumerate(facts):
        match each.fact:
            case TurnStarted() | Note(code="turn-resumed"):
                if begin is not None:
                    yield begin, place
                begin = place
            case TurnEnded(detail=detail) if begin is not None:
                yield begin, place if detail in BURIED else place + 1
                begin = None
            case _:
                pass
    if begin is not None:
        yield begin, len(facts)


class Standing:
    """Where a conversation stands before one of its facts: the fold that a process makes that takes it up."""

    def __init__(self) -> None:
        self.history = History("")
        self.tally = Tally()
        self.begun: TurnStarted | None = None
        self.route = ""
        self.spending = Spending()

    def take(self, facts: Sequence[Recorded]) -> None:
        if facts and not self.history.lineage:
            self.history.lineage = facts[0].conversation_id
        for each in facts:
            self.history.apply(each.fact)
            self.history.placed(each.fact, each.seq)
        self.go_on(facts)

    def go_on(self, facts: Sequence[Recorded]) -> None:
        """The loop has put these into the history itself."""
        for each in facts:
            self._apply(each.fact)

    def _apply(self, fact: KnownFact | Unknown) -> None:
        self.spending.apply(fact)
        match fact:
            case TurnStarted():
                self.begun, self.tally = fact, Tally(mode=fact.mode)
            case TurnEnded():
                self.begun = None
            case ConversationOpened(forked_at=int()):
                self.route = ""
            case AttemptStarted(route=route):
                self.route = route
                self.tally.apply(fact)
            case _:
                self.tally.apply(fact)


async def _played(
    facts: Sequence[Recorded],
    standing: Standing,
    recording: Recording,
    bytes_of: Bytes | None,
    rerun: Rerun | None,
    totals: _Totals,
) -> tuple[Tape, Divergence | None]:
    tape = Tape(facts, RecordedClock(facts[0].at), Cancellation())
    turn = _turn(facts, standing)
    before = Before(
        left_over=[call for call, _ in standing.history.open_calls()],
        wrapping_up=turn.begun is not None and turn.begun.wrapping_up is not None,
        limits=turn.limits,
        spent=standing.spending.spent if turn.begun or turn.continued else Charge(),
    )
    played = recorded_ports(tape, recording, before, bytes_of, rerun)
    standing.history.taken_up = _was_taken_up(facts)
    task = asyncio.ensure_future(run_turn(turn, played.ports, tape))
    tape.running_in(task)
    divergence = await _first_divergence(task, tape, played)
    totals.add(tape, played)
    return tape, divergence


async def _first_divergence(task: asyncio.Task[object], tape: Tape, played: Played) -> Divergence | None:
    looks, moves = 0, -1
    while not task.done():
        await asyncio.wait([task], timeout=LOOK_S)
        if played.tools.working:
            continue  # a tool that is executed again takes its own time
        looks, moves = (looks + 1 if tape.moves == moves else 0), tape.moves
        if looks >= LOOKS and not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=LOOK_S)
            return _left(tape, "the replay waits here for something that was not recorded")
    if task.cancelled():
        return _left(tape, "the turn was cancelled") if tape.at < len(tape.facts) else None
    match task.exception():
        case Diverged(found=found):
            return found
        case None | Died():
            return _left(tape, "the turn had ended") if tape.at < len(tape.facts) else None
        case error:
            if tape.at == len(tape.facts):
                return None  # the turn's own end says it, and says the same
            return _left(tape, f"{type(error).__name__}: {error}")


def _left(tape: Tape, instead: str) -> Divergence:
    """The recording goes on, and the replay does not."""
    recorded = tape.facts[tape.at]
    fact = recorded.fact
    assert isinstance(fact, Fact), "unknown facts are outside"
    return Divergence(
        conversation_id=recorded.conversation_id,
        seq=recorded.seq,
        type=str(fact.__struct_config__.tag),
        field="",
        recorded=msgspec.to_builtins(fact),
        replayed=instead,
    )


def _was_taken_up(facts: Sequence[Recorded]) -> bool:
    """By another process, whose first request was not what the one before had sent."""
    for each in facts:
        match each.fact:
            case Note(code="prefix-changed"):
                return True
            case StepStarted():
                return False
            case _:
                pass
    return False


def _turn(facts: Sequence[Recorded], standing: Standing) -> Turn:
    begun: Tally | None = None
    match facts[0].fact:
        case TurnStarted() as started:
            rules = started.rules
        case Note(data=rules):
            assert standing.begun is not None, "what is carried on has begun"
            started, begun = standing.begun, standing.tally
        case _:
            raise AssertionError("a run begins with a turn")
    by = rules_of_record(rules or started.rules)
    attempts = (each.fact for each in facts if isinstance(each.fact, AttemptStarted))
    purpose = next((attempt.purpose for attempt in attempts), "turn")
    return Turn(
        conversation_id=facts[0].conversation_id,
        turn_id=started.turn_id or "",
        text=started.text,
        history=standing.history,
        images=started.images,
        mode=started.mode,
        limits=by.limits,
        retry=by.retry,
        dispatch=by.dispatch,
        compaction=by.compaction,
        inbox_ids=started.inbox_ids,
        continued=started.continued,
        task_class=started.task_class,
        task_signals=started.task_signals,
        course=started.course,
        tiers=started.tiers,
        tier=started.tier,
        reasoning=started.reasoning,
        confinement=started.confinement,
        begun=begun,
        purpose=purpose,
        route=standing.route,
    )


def gaps(facts: Sequence[Recorded]) -> Iterator[Seq]:
    """Numbers that are missing: records that are damaged are left out by whoever reads them."""
    expected = 1
    for each in facts:
        yield from range(expected, each.seq)
        expected = each.seq + 1
