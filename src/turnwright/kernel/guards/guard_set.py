"""An ordered set of guards as one: `kernel.ports.Guards`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from turnwright.kernel.guards.kind import Guard, Kind
from turnwright.kernel.ports import LOOKED, Continue, ForceAnswer, Halt, Judgement, Look, Nudge, Watch
from turnwright.kernel.scribe import tripped
from turnwright.schema.facts import (
    AttemptEnded,
    ContextCompacted,
    Fact,
    GuardTripped,
    Note,
    TurnEnded,
    TurnSoFar,
    TurnStarted,
    Unknown,
)
from turnwright.schema.guards import GuardSettings

Chosen: TypeAlias = Sequence[tuple[Kind, GuardSettings]]
"""Guards and their settings, in the order in which they are asked."""


OWN = frozenset({"turn", "probe"})
"""What the turn itself asks for. Digests, titles and the like are asked beside it, and are nobody's answer."""


class GuardSet:
    """Every turn begins with fresh guards. What they say is weighed here: one voice a fact, and once an answer was
    forced, or a summary asked for, nothing but what helps that last step to come out well."""

    def __init__(self, chosen: Chosen) -> None:
        self._chosen = tuple(chosen)
        self._seeing: dict[type[Fact], list[Guard]] = {}
        self._begun = self._wrapping_up = False
        self._stored: list[Fact] = []

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        owed = self._owed() if self._stored else []
        return [*owed, *self._fold(fact)] if owed else self._fold(fact)

    def watch(self) -> Watch | None:
        """There is one guard that looks on; the first one that does is asked."""
        return next((kind.watch(settings) for kind, settings in self._chosen if kind.watch is not None), None)

    def recall(self, fact: Fact | Unknown) -> None:
        """Kept until a turn is carried on: of turns that are over nothing is needed."""
        match fact:
            case TurnStarted() | ContextCompacted(turn=TurnSoFar()):
                self._stored = [fact]  # what came before a compaction is not read again
            case TurnEnded():
                self._stored = []
            case Fact() if self._stored and fact.turn_id is not None:
                self._stored.append(fact)
            case _:
                pass

    def _owed(self) -> list[Judgement]:
        """What was said before a crash, and is not on record."""
        stored, self._stored = self._stored, []
        said: list[tuple[Judgement, Fact]] = []
        for fact in stored:
            if isinstance(fact, GuardTripped):
                said = _without(fact, said)
                continue
            if isinstance(fact, Note) and fact.code == LOOKED:
                said = [(one, of) for one, of in said if not isinstance(one, Look) or one.call_id != fact.call_id]
            said += [(one, fact) for one in self._fold(fact)]
        return [one for one, _ in said]

    def _fold(self, fact: Fact) -> Sequence[Judgement]:
        if fact.turn_id is None or (isinstance(fact, AttemptEnded) and fact.purpose not in OWN):
            return ()
        if isinstance(fact, TurnStarted) or not self._begun:
            self._begin()
        guards = self._seeing.get(type(fact))
        said: list[Judgement] = []
        for guard in guards or ():
            if judged := guard.judge(fact):  # nearly every guard has nothing to say of nearly every fact
                said += [one for one in judged if not isinstance(one, Continue)]
        if isinstance(fact, Note) and fact.code == "wrap-up":
            self._wrapping_up = True
        if not said:
            return said
        weighed = self._weighed(fact, said)
        after = self._seeing.get(GuardTripped, ())
        verdicts = [tripped(each, fact) for each in weighed if not isinstance(each, Look)]
        more = [one for guard in after for verdict in verdicts for one in guard.judge(verdict)]
        return self._weighed(fact, [*weighed, *more]) if more else weighed

    def _begin(self) -> None:
        self._begun, self._wrapping_up = True, False
        self._stored = []
        self._seeing = {}
        for kind, settings in self._chosen:
            guard = kind.make(settings)
            for seen in kind.sees:
                self._seeing.setdefault(seen, []).append(guard)

    def _weighed(self, fact: Fact, said: Sequence[Judgement]) -> Sequence[Judgement]:
        """The strongest of what would change the course of the turn; the rest of what does not get in its way."""
        if self._wrapping_up:
            last = isinstance(fact, AttemptEnded)
            said = [one for one in said if isinstance(one, Halt) or (last and isinstance(one, Nudge))]
        for kind in (Halt, ForceAnswer, Nudge):
            strongest = next((one for one in said if isinstance(one, kind)), None)
            if strongest is None:
                continue
            if isinstance(strongest, Halt):
                return [strongest]
            self._wrapping_up = self._wrapping_up or isinstance(strongest, ForceAnswer)
            beside = [one for one in said if not isinstance(one, Halt | ForceAnswer | Nudge)]
            return [*beside, strongest]
        return said


def _without(recorded: GuardTripped, said: list[tuple[Judgement, Fact]]) -> list[tuple[Judgement, Fact]]:
    """One verdict fewer: the one that this fact records."""
    for at, (one, fact) in enumerate(said):
        if isinstance(one, Look):
            continue
        expected = tripped(one, fact)
        if (expected.guard, expected.verdict, expected.why, expected.call_id) == (
            recorded.guard,
            recorded.verdict,
            recorded.why,
            recorded.call_id,
        ):
            return said[:at] + said[at + 1 :]
    return said
