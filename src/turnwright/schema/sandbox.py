"""What confines the commands of a machine: asked for as a level, reached as a tier."""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal, TypeAlias

import msgspec

SandboxLevel: TypeAlias = Literal["read-only", "workspace-write", "off"]

SandboxTier: TypeAlias = Literal["namespaces", "kernel-lite", "macos", "none"]
"""By which means: Linux namespaces, Landlock and seccomp alone, macOS's own sandbox, or nothing."""

RANK = MappingProxyType[SandboxTier, int]({"namespaces": 3, "kernel-lite": 2, "macos": 2, "none": 1})
"""What rules and autonomy compare."""

NetworkReach: TypeAlias = Literal["off", "hosts", "open"]
"""Nothing, the hosts of a list through our own proxy, or everything."""


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for the commands of one machine, as it was found out by doing."""

    level: SandboxLevel = "off"
    tier: SandboxTier = "none"
    network: NetworkReach = "open"
    missing: tuple[str, ...] = ()
    """Each protection that this tier lacks here, in words."""

    @property
    def rank(self) -> int:
        return RANK[self.tier]

    @property
    def whole(self) -> bool:
        """Nothing is wanting."""
        return self.rank == max(RANK.values()) and not self.missing

    def __str__(self) -> str:
        if self.level == "off":
            return "off: commands run with your own rights"
        lacks = f"; lacks: {'; '.join(self.missing)}" if self.missing else ""
        return f"{self.level} by {self.tier}, network {self.network}{lacks}"


UNCONFINED = Confinement()
