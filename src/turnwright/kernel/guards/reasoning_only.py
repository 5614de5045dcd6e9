"""Replies that are thoughts and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from turnwright.kernel.guards import wording
from turnwright.kernel.ports import Halt, Judgement, Nudge
from turnwright.schema.facts import Fact, ModelReplied
from turnwright.schema.guards import ReasoningOnlyGuard

NAME = "reasoning_only"


class ReasoningOnly:
    def __init__(self, settings: ReasoningOnlyGuard) -> None:
        self._settings = settings
        self._row = 0

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        assert isinstance(fact, ModelReplied)
        if fact.verdict != "reasoning_only":
            self._row = 0
            return ()
        self._row += 1
        why, evidence = f"{self._row} replies in a row were reasoning only", {"in_a_row": self._row}
        if self._row > self._settings.nudges:
            text = wording.only_thoughts(self._row)
            return [Halt(guard=NAME, why=why, reason="provider-error", text=text, evidence=evidence)]
        return [Nudge(guard=NAME, why=why, said=wording.said(NAME, wording.SAY_IT), evidence=evidence)]
