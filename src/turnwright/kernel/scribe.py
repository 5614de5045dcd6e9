"""Where a turn's facts go: to the journal, and through the folds that the loop itself reads."""

from __future__ import annotations

from turnwright.kernel.history import History
from turnwright.kernel.limits import Tally
from turnwright.kernel.ports import Block, Continue, ForceAnswer, Guards, Halt, Judgement, Record, Warn
from turnwright.schema.facts import Fact, GuardTripped, TurnEnded
from turnwright.schema.ids import CallId, StepId, TurnId


class Scribe:
    """Facts that only report (`note`) wait for the next fact that announces an act (`record`): between the two nothing
    is acted upon, so a step costs two or three commits, not one per fact."""

    def __init__(self, record: Record, history: History, tally: Tally, guards: Guards) -> None:
        self.history = history
        self.tally = tally
        self._record = record
        self._guards = guards
        self._waiting: list[Fact] = []
        self._judgements: list[Judgement] = []
        self._guards_broke = False

    def note(self, fact: Fact) -> None:
        self._waiting.append(fact)
        self.history.apply(fact)
        self.tally.apply(fact)
        if not isinstance(fact, GuardTripped | TurnEnded):
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
            self._judgements += [one for one in judged if not isinstance(one, Continue)]

    async def record(self, *facts: Fact) -> None:
        """Make everything noted so far, and these, durable. Only then may the act that they announce begin."""
        for fact in facts:
            self.note(fact)
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for seq, fact in zip(await self._record(*waiting), waiting, strict=True):
                self.history.placed(fact, seq)

    def hear_guards(self, turn_id: TurnId, step_id: StepId | None) -> ForceAnswer | Halt | None:
        """Write down what the guards said since last asked. The first that wants the turn to end is returned; blocks
        are kept for `blocked`."""
        heard = [one for one in self._judgements if not isinstance(one, Block)]
        self._judgements = [one for one in self._judgements if isinstance(one, Block)]
        for one in heard:
            self.note(_tripped(one, turn_id, step_id))
        return next((one for one in heard if isinstance(one, ForceAnswer | Halt)), None)

    def blocked(self, turn_id: TurnId, step_id: StepId) -> dict[CallId, Block]:
        """The calls that a guard forbids, with its reason."""
        blocks = [one for one in self._judgements if isinstance(one, Block)]
        self._judgements = [one for one in self._judgements if not isinstance(one, Block)]
        for one in blocks:
            self.note(_tripped(one, turn_id, step_id))
        return {one.call_id: one for one in blocks}


def _tripped(one: Judgement, turn_id: TurnId, step_id: StepId | None) -> GuardTripped:
    match one:
        case Warn(guard=guard, why=why, said=said):
            return GuardTripped(turn_id=turn_id, step_id=step_id, guard=guard, verdict="warn", why=why, said=said)
        case ForceAnswer(guard=guard, why=why, said=said):
            return GuardTripped(
                turn_id=turn_id, step_id=step_id, guard=guard, verdict="force_answer", why=why, said=said
            )
        case Block(guard=guard, why=why, call_id=call_id):
            return GuardTripped(
                turn_id=turn_id, step_id=step_id, call_id=call_id, guard=guard, verdict="block", why=why
            )
        case Halt(guard=guard, why=why):
            return GuardTripped(turn_id=turn_id, step_id=step_id, guard=guard, verdict="stop", why=why)
        case Continue():
            raise AssertionError("a guard that lets go on has nothing to tell")
