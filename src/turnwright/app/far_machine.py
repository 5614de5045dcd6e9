"""A workspace on another computer: how it is named, and what opens it (X1)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from turnwright.config.tool_environment import FIXED, PASSED
from turnwright.schema.errors import ConfigError, InputError
from turnwright.schema.facts import Note

if TYPE_CHECKING:
    from turnwright.machine.ssh.remote import SshMachine

HERE = "local"
"""Says that the workspace is on this computer, whatever a conversation or a configuration says."""


def far_place(said: str) -> tuple[str, str] | None:
    """The host and the folder of `HOST:FOLDER`; None where the workspace is here."""
    if said in ("", HERE):
        return None
    host, colon, folder = said.partition(":")
    if not colon or not host or host.startswith("-") or any(each.isspace() or not each.isprintable() for each in host):
        raise ConfigError(
            f"machine.ssh is {said!r}, which names no folder on a host.",
            remedy="Write HOST:FOLDER, with a host as ssh knows it; or `local` for this computer.",
        )
    return host, folder or "."


async def opened_far(place: tuple[str, str], config: tuple[Path, ...] = ()) -> SshMachine:
    """Connected, and its folder open."""
    from turnwright.machine.ssh.link import Host
    from turnwright.machine.ssh.remote import open_ssh

    named, folder = place
    user, _, name = named.rpartition("@")
    if not name:
        raise InputError(f"{named!r} names no host.")
    host = Host(name=name, user=user, config=config)
    return await open_ssh(host, folder, passed=tuple(sorted(PASSED)), fixed=FIXED)


def said_of_far(place: tuple[str, str]) -> tuple[Note, ...]:
    """What does not hold over there, for the record of a turn."""
    host = place[0]
    return (
        Note(code="workspace-not-saved", text=f"the workspace is on {host}: what changes there cannot be undone from here"),
    )
