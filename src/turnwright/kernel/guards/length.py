"""Replies that were cut at the output limit: carried on once, or ended for what they are."""

from __future__ import annotations

from collections.abc import Sequence

from turnwright.kernel.guards import wording
from turnwright.kernel.ports import Judgement, Nudge
from turnwright.schema.facts import Fact, ModelReplied
from turnwright.schema.guards import LengthGuard

NAME = "length"


class Length:
    def __init__(self, settings: LengthGuard) -> None:
        self._settings = settings
        self._row = 0

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        assert isinstance(fact, ModelReplied)
        if fact.verdict != "length":
            self._row = 0
            return ()
        self._row += 1
        if self._row > self._settings.continues:
            return ()
        text = (
            wording.CUT_CALL if fact.message.calls else wording.CUT_TEXT if fact.message.text else wording.CUT_THOUGHT
        )
        why, evidence = "the reply was cut at the output limit", {"in_a_row": self._row}
        return [Nudge(guard=NAME, why=why, said=wording.said(NAME, text), evidence=evidence)]
