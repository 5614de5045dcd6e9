"""Whether calls still lead anywhere: to a file or a query not looked at before, or to a result not seen before. So an
edit and a test by turns on one file, and a poll whose output changes, are work; going round in circles is not."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from turnwright.kernel.guards import wording
from turnwright.kernel.guards.signature import Asked, Calls, result_of
from turnwright.kernel.ports import ForceAnswer, Judgement
from turnwright.schema.facts import ContextCompacted, Fact, ModelReplied, ToolEnded, ToolStarted, TurnSoFar, TurnStarted
from turnwright.schema.guards import ProgressGuard
from turnwright.schema.verdicts import TaskClass

NAME = "progress"
PLANNING = frozenset({"todo"})
"""Tools whose result is what they were given: whatever it is, it is nothing new."""
NAMING = ("path", "pattern", "query", "url", "command")
"""Arguments that name what is looked at; the others say how."""


class Progress:
    def __init__(self, settings: ProgressGuard) -> None:
        self._settings = settings
        self._class: TaskClass = "other"
        self._calls = Calls()
        self._resources: set[tuple[str, str]] = set()
        self._results: set[tuple[str, str, str]] = set()
        self._lately: deque[bool] = deque(maxlen=settings.other)
        self._effects = 0
        self._done = False

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        match fact:
            case TurnStarted():
                self._is_about(fact.task_class)
            case ContextCompacted(turn=TurnSoFar() as turn):
                self._is_about(turn.task_class)
            case ModelReplied():
                self._calls.take(fact.message.calls)
            case ToolStarted():
                self._effects += fact.effect != "reads"
            case ToolEnded() if fact.outcome != "refused" and "shared_with" not in fact.detail:
                return self._ended(fact)
            case _:
                pass
        return ()

    def _is_about(self, task_class: TaskClass) -> None:
        if task_class != self._class or self._lately.maxlen != getattr(self._settings, task_class):
            self._class = task_class
            self._lately = deque(self._lately, maxlen=getattr(self._settings, task_class))

    def _ended(self, fact: ToolEnded) -> Sequence[Judgement]:
        asked = self._calls.of(fact)
        if asked is None or self._done:
            return ()
        self._lately.append(self._is_new(asked, fact))
        looked_at = self._lately.maxlen
        fruitful = sum(self._lately)
        if len(self._lately) != looked_at or fruitful >= self._settings.share * looked_at:
            return ()
        self._done = True
        said = wording.no_progress(looked_at, fruitful) if self._effects else wording.research_loop(looked_at, fruitful)
        return [
            ForceAnswer(
                guard=NAME,
                why=f"of the last {looked_at} calls {fruitful} led to anything new",
                said=wording.said(NAME, said),
                evidence={
                    "task_class": self._class,
                    "calls": looked_at,
                    "fruitful": fruitful,
                    "resources": len(self._resources),
                    "only_reads": not self._effects,
                },
            )
        ]

    def _is_new(self, asked: Asked, fact: ToolEnded) -> bool:
        if asked.name in PLANNING:
            return False
        resource = asked.name, _named(asked)
        result = *resource, result_of(fact)
        new = resource not in self._resources or result not in self._results
        self._resources.add(resource)
        self._results.add(result)
        return new


def _named(asked: Asked) -> str:
    """What is looked at, whichever part of it."""
    try:
        arguments = msgspec.json.decode(asked.arguments)
    except msgspec.DecodeError:
        return asked.arguments
    named = [str(arguments[key]) for key in NAMING if key in arguments] if isinstance(arguments, dict) else []
    return "\n".join(named) or asked.arguments
