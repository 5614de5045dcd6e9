"""The way out for commands whose network is a list of hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnwright.schema.settings import MachineSettings

if TYPE_CHECKING:
    from turnwright.wire.egress.proxy import Egress


def way_out(settings: MachineSettings) -> Egress | None:
    """None where commands reach nothing, or everything. With an empty list it is there, and lets nobody pass."""
    if settings.network != "hosts":
        return None
    from turnwright.wire.egress.names import host_list
    from turnwright.wire.egress.proxy import Egress

    return Egress(host_list(settings.hosts))
