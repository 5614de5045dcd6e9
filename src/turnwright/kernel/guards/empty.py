"""Replies with nothing in them; and last steps that would leave the user without a word, or with the announcement of
what can no longer be done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from turnwright.kernel.guards import wording
from turnwright.kernel.guards.announced import announcement
from turnwright.kernel.ports import Halt, Judgement, Nudge
from turnwright.schema.facts import AttemptEnded, Fact, GuardTripped, ModelReplied, Note, StepStarted, ToolEnded
from turnwright.schema.guards import EmptyGuard

NAME = "empty"


class Empty:
    def __init__(self, settings: EmptyGuard) -> None:
        self._settings = settings
        self._empties = 0
        self._last_step = False
        self._said = ""
        self._ran: Counter[str] = Counter()

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        match fact:
            case StepStarted():
                self._empties = 0
            case AttemptEnded(verdict="empty"):
                return self._ask_again()
            case ModelReplied():
                return self._replied(fact)
            case ToolEnded() if fact.outcome != "refused":
                self._ran[fact.name] += 1
            case GuardTripped(verdict="force_answer") | Note(code="wrap-up"):
                self._last_step = True
            case _:
                pass
        return ()

    def _ask_again(self) -> Sequence[Judgement]:
        delays, which = self._settings.delays_s, self._empties
        self._empties += 1
        if which >= len(delays):
            return ()
        return [
            Nudge(
                guard=NAME,
                why=f"empty reply {self._empties}",
                said=wording.said(NAME, wording.empty_reply(self._last_step)),
                delay_s=delays[which],
                warmer=_at(self._settings.warmer, which),
                warmer_if_thinking=_at(self._settings.warmer_if_thinking, which),
                evidence={"empties": self._empties, "delay_s": delays[which]},
            )
        ]

    def _replied(self, fact: ModelReplied) -> Sequence[Judgement]:
        if fact.message.text.strip():
            self._said = fact.message.text
            if not self._last_step or not announcement(fact.message.text):
                return ()
        evidence = {"empties": self._empties, "verdict": fact.verdict}
        if fact.verdict == "empty":
            text = wording.no_answer_at_all(self._empties, self._ran, self._said)
            why = f"{self._empties} empty replies in a row"
            return [Halt(guard=NAME, why=why, reason="provider-error", text=text, evidence=evidence)]
        if self._last_step:
            text = wording.no_last_answer(self._ran, self._said)
            return [Halt(guard=NAME, why="the last step brought no answer", text=text, evidence=evidence)]
        return ()


def _at(values: Sequence[float], which: int) -> float:
    return values[which] if which < len(values) else 0.0
