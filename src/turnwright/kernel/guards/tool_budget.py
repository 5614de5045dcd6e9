"""How many calls a turn may make, and one reply."""

from __future__ import annotations

from collections.abc import Sequence

from turnwright.kernel.guards import wording
from turnwright.kernel.ports import ForceAnswer, Judgement, Truncate, Warn
from turnwright.schema.facts import Fact, ModelReplied, ToolEnded
from turnwright.schema.guards import ToolBudgetGuard
from turnwright.schema.messages import ToolCall

NAME = "tool_budget"


class ToolBudget:
    """Counted when asked for, so that a batch can be cut before it runs; the answer is asked for when it has run."""

    def __init__(self, settings: ToolBudgetGuard) -> None:
        self._settings = settings
        self._used = 0
        self._open = 0
        self._warned = self._forced = False

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        match fact:
            case ModelReplied():
                return self._asked_for(fact.message.calls)
            case ToolEnded():
                return self._ended()
            case _:
                return ()

    def _asked_for(self, calls: Sequence[ToolCall]) -> Sequence[Judgement]:
        limits = self._settings
        self._open = len(calls)
        left = limits.calls - self._used
        kept = min(len(calls), left, limits.per_reply)
        self._used += kept
        dropped = tuple(call.id for call in calls[kept:])
        if not dropped:
            return ()
        why = wording.beyond_budget(left, limits.calls) if kept == left else wording.beyond_reply(limits.per_reply)
        evidence = {"asked": len(calls), "kept": kept, "used": self._used, "calls": limits.calls}
        return [Truncate(guard=NAME, why=why, call_ids=dropped, evidence=evidence)]

    def _ended(self) -> Sequence[Judgement]:
        self._open -= 1
        used, limits = self._used, self._settings
        evidence = {"used": used, "calls": limits.calls}
        if self._open > 0:
            return ()
        if used >= limits.calls and not self._forced:
            self._forced = True
            said = wording.said(NAME, wording.budget_is_used(limits.calls))
            return [ForceAnswer(guard=NAME, why=f"all {limits.calls} calls are used", said=said, evidence=evidence)]
        if used >= limits.warn_share * limits.calls and not self._warned:
            self._warned = True
            said = wording.said(NAME, wording.budget_is_near(used, limits.calls))
            return [Warn(guard=NAME, why=f"{used} of {limits.calls} calls are used", said=said, evidence=evidence)]
        return ()
