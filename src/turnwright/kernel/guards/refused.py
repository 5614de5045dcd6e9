"""Calls that cannot be executed: malformed, unknown, not offered, forbidden. Once told why, a model should stop."""

from __future__ import annotations

from collections.abc import Sequence

from turnwright.kernel.guards import wording
from turnwright.kernel.ports import ForceAnswer, Judgement
from turnwright.schema.facts import Fact, ToolEnded
from turnwright.schema.guards import RefusedGuard
from turnwright.schema.ids import StepId

NAME = "refused"
NOT_ITS_FAULT = frozenset({"tool_budget"})
"""Who cuts a batch short has not refused anything that the model should have known better."""


class Refused:
    """A model that has not yet read why is not stubborn: the calls of one reply alone never trip it."""

    def __init__(self, settings: RefusedGuard) -> None:
        self._settings = settings
        self._row = self._turn = 0
        self._first_in: StepId | None = None
        self._done = False

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        assert isinstance(fact, ToolEnded)
        if fact.outcome != "refused":
            self._row = 0
            return ()
        if fact.detail.get("guard") in NOT_ITS_FAULT:
            return ()
        self._row, self._turn = self._row + 1, self._turn + 1
        self._first_in = self._first_in or fact.step_id
        limits = self._settings
        too_many = self._row >= limits.in_a_row or self._turn >= limits.in_a_turn
        if self._done or not too_many or fact.step_id == self._first_in:
            return ()
        self._done = True
        why = f"{self._row} calls in a row were refused, {self._turn} in this turn"
        said = wording.said(NAME, wording.refused_calls(self._row, self._turn))
        return [
            ForceAnswer(
                guard=NAME,
                why=why,
                said=said,
                evidence={"in_a_row": self._row, "in_a_turn": self._turn, "last": fact.name},
            )
        ]
