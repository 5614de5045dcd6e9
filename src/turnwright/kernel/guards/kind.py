"""What a guard is, to whoever configures, lists, runs or writes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from turnwright.kernel.ports import Judgement, Watch
from turnwright.schema.facts import Fact
from turnwright.schema.guards import GuardSettings
from turnwright.schema.verdicts import StopReason

TrippedAs: TypeAlias = Literal["warn", "block", "truncate", "ask", "force_answer", "stop"]
"""The verdicts that are recorded."""


class Guard(Protocol):
    """A fold over the facts of one turn. It sees each once, in order, and may say something about it; it has no clock
    and reads nothing else, so that the same facts always get the same verdicts."""

    def judge(self, fact: Fact) -> Sequence[Judgement]: ...


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table: what a guard is called, what it watches, what it may say, and how to make one for a turn."""

    name: str
    """In the configuration, and in `guard.tripped`."""
    watches: str
    verdicts: tuple[TrippedAs, ...]
    reasons: tuple[StopReason, ...] = ()
    """Why a turn may end by it; empty where it never ends one."""
    settings: type[GuardSettings]
    sees: tuple[type[Fact], ...]
    """The facts that it is shown."""
    make: Callable[[Any], Guard]
    """From its settings."""
    watch: Callable[[Any], Watch] | None = None
    """From its settings, what looks on while a reply comes."""
    key: str = ""
    """Where it is configured, if that is not `guards.<name>`."""

    @property
    def where(self) -> str:
        return self.key or f"guards.{self.name}"
