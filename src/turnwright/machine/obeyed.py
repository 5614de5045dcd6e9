"""Files that are more than what they hold: those that make other programs run code, and those that hold keys.

Whoever approves a write to `notes.txt` has not approved one to `.git/config`, though the first be a link to the second.
So such a file is reached by its own name or not at all; whether it is then, is for permissions to say.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import sys

from turnwright.machine.port import ThroughLink
from turnwright.machine.sandbox.names import CREDENTIALS, OF_GIT, RUNS_CODE

_F_GETPATH, _PATH_BYTES = 50, 1024
_KEYS = tuple(f"/{name}/" for name in CREDENTIALS)
_OBEYED = (*(f"/{name}/" for name in RUNS_CODE), *(f"/.git/{name}/" for name in OF_GIT))


def refuse_disguised(root_fd: int, folder_fd: int, name: str, relative: str, path: str, *, writing: bool) -> None:
    """ThroughLink where `name` in that folder is such a file and the path that led there did not say so."""
    root, here = place_of(root_fd), place_of(folder_fd)
    if root is None or here is None:
        return
    there = f"{here.rstrip('/')}/{name}"
    inside = f"{there.removeprefix(root.rstrip('/'))}/"
    named = (*_KEYS, *_OBEYED) if writing else _KEYS
    if any(part in inside for part in named) and posixpath.normpath(f"{root}/{relative}") != there:
        raise ThroughLink(path, inside.strip("/"))


def place_of(fd: int) -> str | None:
    """What the folder is called, links resolved; None where the system does not tell."""
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(fd, _F_GETPATH, bytes(_PATH_BYTES)).rstrip(b"\0"))
    with contextlib.suppress(FileNotFoundError):  # no /proc here
        return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
    return None
