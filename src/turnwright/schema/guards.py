"""What a user may set about guards: the thresholds of each, with its defaults. The one place where they stand.

What each guard watches and does is in `kernel/guards/registry.py`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

import msgspec

Count: TypeAlias = Annotated[int, msgspec.Meta(gt=0)]
Share: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1)]
Scalar: TypeAlias = str | int | float | bool | None


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every guard has."""

    enabled: bool = True
    """Whether it watches at all."""


class LoopGuard(GuardSettings, frozen=True, kw_only=True):
    """`guards.loop`: the same call with the same result, again and again."""

    window: Count = 10
    """How many of the last calls are looked at."""
    warn_at: Count = 3
    """So many equal ones, and the model is told."""
    block_at: Count = 4
    """The call that would be this one is not executed."""
    alternate_at: Count = 6
    """So many calls that alternate between two, and neither is executed again."""
    monologue_at: Count = 3
    """So many replies in a row without a call, where a reply does not end the turn, and an answer is asked for."""


class RefusedGuard(GuardSettings, frozen=True, kw_only=True):
    """`guards.refused`: calls that cannot be executed, in spite of being told why."""

    in_a_row: Count = 4
    """So many one after the other, and an answer is asked for."""
    in_a_turn: Count = 6
    """So many in the turn, and an answer is asked for."""


class ToolBudgetGuard(GuardSettings, frozen=True, kw_only=True):
    """`guards.tool_budget`: how many calls a turn and a reply may make."""

    calls: Count = 1000
    """In a turn."""
    warn_share: Share = 0.8
    """From this share on the model is told."""
    per_reply: Count = 64
    """In one reply; what is beyond is not executed."""


class PluginGuard(GuardSettings, frozen=True, kw_only=True):
    """`guards.<name>`: a guard of an installed package; it watches once it is named here."""

    options: dict[str, Scalar] = {}
    """Its own settings, as its package describes them."""


class Guards(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`guards`: what watches over a turn, so that it ends and ends usefully. `turnwright guards list` explains each.
    Every other key of this section is the name of an installed package's guard."""

    rest: ClassVar[str] = "plugins"

    loop: LoopGuard = LoopGuard()
    refused: RefusedGuard = RefusedGuard()
    tool_budget: ToolBudgetGuard = ToolBudgetGuard()
    plugins: dict[str, PluginGuard] = {}
