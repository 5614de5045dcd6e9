"""A workspace on another computer: how it is named, and what opens it (X1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from turnwright.config.tool_environment import FIXED, PASSED
from turnwright.schema.errors import ConfigError

if TYPE_CHECKING:
    from turnwright.machine.ssh.remote import SshMachine

HERE = "local"
"""Says that the workspace is on this computer, whatever a conversation or a configuration says."""


class Far(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    user: str
    """Empty: as ssh has it."""
    folder: str


def far_of(said: str) -> Far | None:
    """Of `[USER@]HOST:FOLDER`; None where the workspace is here."""
    if said in ("", HERE):
        return None
    named, colon, folder = said.partition(":")
    user, _, host = named.rpartition("@")
    if not colon or not host or named.startswith("-") or any(c.isspace() or not c.isprintable() for c in named):
        raise ConfigError(
            f"machine.ssh is {said!r}, which names no folder on a host.",
            remedy="Write HOST:FOLDER, with a host as ssh knows it; or `local` for this computer.",
        )
    return Far(host=host, user=user, folder=folder or ".")


async def opened_far(far: Far) -> SshMachine:
    """Connected, and its folder open."""
    from turnwright.machine.ssh.link import Host
    from turnwright.machine.ssh.remote import open_ssh

    host = Host(name=far.host, user=far.user)
    return await open_ssh(host, far.folder, passed=tuple(sorted(PASSED)), fixed=FIXED)
