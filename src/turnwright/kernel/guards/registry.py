"""The guards there are, in the order in which they are asked. The one table: the reference, `turnwright guards list`
and the test that each guard trips through the real command line are made from it."""

from __future__ import annotations

from typing import Any

import msgspec

from turnwright.kernel.guards import loop, refused, tool_budget
from turnwright.kernel.guards.guard_set import Chosen
from turnwright.kernel.guards.kind import Kind
from turnwright.schema.facts import GuardTripped, ModelReplied, ToolEnded, ToolStarted
from turnwright.schema.guards import Guards, GuardSettings, LoopGuard, RefusedGuard, ToolBudgetGuard

GUARDS: tuple[Kind, ...] = (
    Kind(
        name=loop.NAME,
        watches="the same call with the same result again and again, two calls in turns, replies without calls",
        verdicts=("warn", "block", "force_answer"),
        reasons=("guard-stop",),
        settings=LoopGuard,
        sees=(ModelReplied, ToolStarted, ToolEnded, GuardTripped),
        make=loop.Loop,
    ),
    Kind(
        name=refused.NAME,
        watches="calls that cannot be executed: malformed, unknown, not offered, forbidden",
        verdicts=("force_answer",),
        reasons=("guard-stop",),
        settings=RefusedGuard,
        sees=(ToolEnded,),
        make=refused.Refused,
    ),
    Kind(
        name=tool_budget.NAME,
        watches="how many calls the turn and one reply make",
        verdicts=("warn", "truncate", "force_answer"),
        reasons=("guard-stop",),
        settings=ToolBudgetGuard,
        sees=(ModelReplied, ToolEnded),
        make=tool_budget.ToolBudget,
    ),
)
"""What decides for itself comes before what only counts."""


def chosen(guards: Guards) -> Chosen:
    """The built-in guards that are switched on, with their settings."""
    found: list[tuple[Kind, GuardSettings]] = []
    for kind in GUARDS:
        settings: Any = getattr(guards, kind.name)
        if settings.enabled:
            found.append((kind, settings))
    return found


def thresholds(settings: GuardSettings) -> dict[str, Any]:
    """What can be set besides switching it off."""
    return {name: value for name, value in msgspec.structs.asdict(settings).items() if name != "enabled"}
