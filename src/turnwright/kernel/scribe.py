"""Where a turn's facts go: to the journal, and through the folds that the loop itself reads."""

from __future__ import annotations

from typing import assert_never

import msgspec

from turnwright.kernel.history import History
from turnwright.kernel.limits import Tally
from turnwright.kernel.ports import (
    Block,
    Continue,
    ForceAnswer,
    Guards,
    Halt,
    Judgement,
    Look,
    Nudge,
    Record,
    Truncate,
    Warn,
)
from turnwright.schema.facts import Fact, GuardTripped, TurnEnded
from turnwright.schema.ids import CallId

_NOT_JUDGED: frozenset[type] = frozenset({GuardTripped, TurnEnded})
"""What the guards said themselves, and a turn's end, which is judged before it is noted."""


class Scribe:
    """Facts that only report (`note`) wait for the next fact that announces an act (`record`): between the two nothing
    is acted upon, so a step costs two or three commits, not one per fact."""

    def __init__(self, record: Record, history: History, tally: Tally, guards: Guards) -> None:
        self.history = history
        self.tally = tally
        self._record = record
        self._guards = guards
        self._waiting: list[Fact] = []
        self._judged: list[tuple[Judgement, Fact]] = []
        """What the guards said and nobody has heard yet, each with the fact that it was said about."""
        self._guards_broke = False

    def note(self, fact: Fact) -> None:
        self._waiting.append(fact)
        self.history.apply(fact)
        self.tally.apply(fact)
        if type(fact) not in _NOT_JUDGED:
            self.judge(fact)

    def judge(self, fact: Fact) -> None:
        """Let the guards see a fact. One that raises ends the turn; it is not asked again, or it would raise over the
        turn's end too."""
        if self._guards_broke:
            return
        try:
            judged = self._guards.judge(fact)
        except BaseException:
            self._guards_broke = True
            raise
        if judged:
            self._judged += [(one, fact) for one in judged if not isinstance(one, Continue)]

    async def record(self, *facts: Fact) -> None:
        """Make everything noted so far, and these, durable. Only then may the act that they announce begin."""
        for fact in facts:
            self.note(fact)
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for seq, fact in zip(await self._record(*waiting), waiting, strict=True):
                self.history.placed(fact, seq)

    def hear(self, *kinds: type[Judgement]) -> list[Judgement]:
        """What the guards said of these kinds since last asked. It is on record before anybody acts on it."""
        if not self._judged:
            return []
        heard = [(one, fact) for one, fact in self._judged if isinstance(one, kinds)]
        self._judged = [(one, fact) for one, fact in self._judged if not isinstance(one, kinds)]
        for one, fact in heard:
            self.note(tripped(one, fact))
        return [one for one, _ in heard]

    def wants_to_know(self) -> list[Look]:
        """What the guards must see before they can judge the calls of a reply."""
        wanted = [one for one, _ in self._judged if isinstance(one, Look)]
        if wanted:
            self._judged = [(one, fact) for one, fact in self._judged if not isinstance(one, Look)]
        return wanted

    def not_to_run(self) -> dict[CallId, Block | Truncate]:
        """The calls that a guard forbids, with its reason."""
        forbidden: dict[CallId, Block | Truncate] = {}
        for one in self.hear(Block, Truncate):
            match one:
                case Block(call_id=call_id):
                    forbidden.setdefault(call_id, one)
                case Truncate(call_ids=call_ids):
                    forbidden |= {call_id: one for call_id in call_ids if call_id not in forbidden}
                case _:
                    raise AssertionError("only these were asked for")
        return forbidden


def tripped(one: Judgement, of: Fact) -> GuardTripped:
    """The fact that a verdict becomes; it belongs where the fact stands that it is about."""
    assert not isinstance(one, Continue | Look), "a guard that lets go on has nothing to tell"
    fact = GuardTripped(
        turn_id=of.turn_id,
        step_id=of.step_id,
        guard=one.guard,
        verdict="warn",
        why=one.why,
        evidence=dict(one.evidence),
    )
    match one:
        case Warn(said=said):
            return msgspec.structs.replace(fact, said=said)
        case Block(call_id=call_id):
            return msgspec.structs.replace(fact, verdict="block", call_id=call_id)
        case Truncate():
            return msgspec.structs.replace(fact, verdict="truncate")
        case Nudge(said=said):
            return msgspec.structs.replace(fact, verdict="ask", said=said)
        case ForceAnswer(said=said):
            return msgspec.structs.replace(fact, verdict="force_answer", said=said)
        case Halt(reason=reason, text=text):
            return msgspec.structs.replace(fact, verdict="stop", reason=reason, text=text)
        case _:
            assert_never(one)
