"""Tiers: which model a message is given to, by how hard it seems and by how the run goes."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

Tier: TypeAlias = Literal["light", "coder", "reasoner"]
"""In rising order."""
TIERS: tuple[Tier, ...] = get_args(Tier)


class Tiers(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The route of each tier, and by which rules a turn moves between them."""

    light: str
    coder: str
    reasoner: str
    fallbacks: tuple[str, ...] = ()
    """Routes that answer where another has failed."""
    forced: Tier | None = None
    """The user wants this one, whatever is asked."""
    forced_turns: int = 0
    """How many turns in a row before this one were forced to it."""
    escalate_at: int = 2
    calm_steps: int = 3

    def route(self, tier: Tier) -> str:
        match tier:
            case "light":
                return self.light
            case "coder":
                return self.coder
            case "reasoner":
                return self.reasoner
