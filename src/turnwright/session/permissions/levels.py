"""What each level of autonomy does by itself, before any rule (X3)."""

from __future__ import annotations

from collections.abc import Sequence

from turnwright.schema.permissions import Action
from turnwright.schema.sandbox import Confinement
from turnwright.session.permissions.segments import KINDS, Kind, Segment

CONFINED = 2
"""From this rank on a sandbox holds what runs in it."""
FREE: tuple[Kind, ...] = ("reads",)
AT_ONE: tuple[Kind, ...] = ("reads", "writes")


def by_level(
    segment: Segment, autonomy: int, confinement: Confinement, hosts: Sequence[str] = ()
) -> tuple[Action, str]:
    """The action, and the reason in words."""
    action, more = _by_level(segment, autonomy, confinement, hosts)
    return action, f"autonomy {autonomy}: {KINDS[segment.kind]}{more}"


def _by_level(segment: Segment, autonomy: int, confinement: Confinement, hosts: Sequence[str]) -> tuple[Action, str]:
    kind = segment.kind
    confined = confinement.rank >= CONFINED and confinement.level != "off"
    where = f", in the sandbox {confinement.tier}" if confined else ", and there is no sandbox"
    if autonomy >= 4 or kind in FREE:
        return "allow", ""
    if kind == "secret":
        return "ask", ""
    if autonomy == 0:
        return "deny", ", and this level only looks"
    if kind in AT_ONE:
        return "allow", ""
    match kind:
        case "runs" | "outside" if autonomy >= 2:
            return ("allow" if confined else "ask"), where
        case "network" if autonomy >= 2 and confined and confinement.network != "open":
            return "allow", f"{where}, which lets nothing through that is not allowed"
        case "network" if autonomy >= 3 and segment.hosts is not None and all(_listed(h, hosts) for h in segment.hosts):
            return "allow", f": {', '.join(segment.hosts)} of permissions.hosts"
        case "commits" if autonomy >= 3:
            return "allow", ""
        case _:
            return "ask", ""


def _listed(host: str, hosts: Sequence[str]) -> bool:
    return any(host == each or (each.startswith("*.") and host.endswith(each[1:])) for each in hosts)
