"""Where a conversation can be cut so that what is left can be carried on: between steps, never within one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from turnwright.schema.facts import (
    AttemptEnded,
    AttemptStarted,
    Fact,
    KnownFact,
    ModelReplied,
    Recorded,
    StepStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Unknown,
)
from turnwright.schema.ids import CallId, Seq


class Openness:
    """A fold: is a step under way, and a turn."""

    def __init__(self) -> None:
        self.turn = False
        self.step = False
        self._calls: set[CallId] = set()
        self._attempts = 0
        self._ended: set[CallId] = set()

    def take(self, fact: KnownFact | Unknown) -> None:
        match fact:
            case TurnStarted():
                self.turn, self.step = True, False
            case TurnEnded():
                self.turn = self.step = False
                self._attempts = 0
            case StepStarted():
                self.step = True
                self._calls, self._ended = set(), set()
            case AttemptStarted():
                self._attempts += 1
            case AttemptEnded():
                self._attempts = max(0, self._attempts - 1)
            case ToolStarted(call_id=str(call_id)) if not self.step:
                self._calls, self.step = {call_id}, True  # a call that another process left behind
            case ToolEnded(call_id=str(call_id)):
                self._ended.add(call_id)
                self.step = self.step and (not self._calls or not self._calls <= self._ended)
            case ModelReplied(message=message):
                self._calls = {call.id for call in message.calls}
                self.step = not self._calls <= self._ended
            case _:
                pass

    @property
    def between_steps(self) -> bool:
        return not self.step and self._attempts == 0


def consistent_cut(facts: Sequence[Recorded], seq: Seq) -> Seq:
    """The last fact, no later than `seq`, behind which no step is under way. The first fact always is one."""
    openness, at = Openness(), facts[0].seq
    for each in facts:
        if each.seq > seq:
            break
        openness.take(each.fact)
        if openness.between_steps:
            at = each.seq
    return at


def turn_open_at(facts: Iterable[Recorded], seq: Seq) -> bool:
    openness = Openness()
    for each in facts:
        if each.seq <= seq and isinstance(each.fact, Fact):
            openness.take(each.fact)
    return openness.turn
