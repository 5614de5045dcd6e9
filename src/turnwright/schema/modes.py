"""Modes of work: what a turn may use in each, and in which order it goes through them (K14)."""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

from turnwright.schema.prompt import ToolSpec
from turnwright.schema.verdicts import Effect

EVERY_EFFECT: frozenset[Effect] = frozenset({"reads", "writes", "runs", "asks"})


class Offer(msgspec.Struct, frozen=True):
    """Which tools a mode offers: those of these effects, and of these names where any are named."""

    effects: frozenset[Effect] = EVERY_EFFECT
    names: tuple[str, ...] | None = None
    """Names, or patterns for them. Empty: no tool at all. None: all."""
    but: tuple[str, ...] = ()
    """Never these."""

    def allows(self, tool: ToolSpec) -> bool:
        named = self.names is None or any(fnmatchcase(tool.name, name) for name in self.names)
        return named and tool.effect in self.effects and tool.name not in self.but


class Course(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The modes that a turn goes through. Empty: it stays in the one in which it begins."""

    sequence: tuple[str, ...] = ()
    plan_turn_limit: int | None = None
    """After so many steps in a mode that another one follows, that one begins."""

    def after(self, mode: str) -> str:
        """The mode that follows; empty where none does."""
        if mode not in self.sequence:
            return ""
        following = self.sequence.index(mode) + 1
        return self.sequence[following] if following < len(self.sequence) else ""
