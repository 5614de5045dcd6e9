"""What a command may reach, said without any means: folders and files, each with what may be done there.

A place is judged by the deepest entry that stands above it. How that is enforced differs by tier.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Set
from typing import Literal, TypeAlias

import msgspec

from turnwright.machine.port import FileKey
from turnwright.machine.sandbox.names import CREDENTIALS, OF_GIT, OF_SYSTEM, RUNS_CODE
from turnwright.schema.errors import SandboxError
from turnwright.schema.sandbox import NetworkReach, SandboxLevel

Access: TypeAlias = Literal["read", "write", "nothing"]


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """What one machine lets its commands reach. All paths are absolute and without links."""

    level: SandboxLevel
    network: NetworkReach
    workspace: str
    home: str
    temporary: str
    """Ours alone; commands see it as their folder for temporary files."""
    cache: str
    """The same for what may be kept from one command to the next, and from one conversation to the next."""
    writable: tuple[str, ...] = ()
    """Folders besides the workspace."""
    hidden: tuple[str, ...] = ()
    """Besides the credentials below `home`."""
    visible: tuple[str, ...] = ()
    """May be read though they lie below what is hidden."""
    kept: tuple[str, ...] = ()
    """May be read and not changed, also inside a writable folder: what tells Turnwright itself what to do."""


class Guarded(msgspec.Struct, frozen=True, kw_only=True):
    """Something inside a writable folder that is not. `key` says what it was when we looked."""

    path: str
    access: Access
    key: FileKey


def guarded(reach: Reach, repositories: Iterable[str], stubs: Set[str]) -> tuple[list[Guarded], list[str]]:
    """Everything to be guarded inside writable folders, outermost first, and where there is nothing yet.
    `repositories` are folders that hold a `.git`. `stubs` are ours, and count as nothing.

    A folder that stands above something guarded is itself an entry, writable: what is a mount cannot be renamed, and
    so nobody can move the guard aside with the folder that holds it.
    """
    look = _Look(stubs)
    for root in writable_roots(reach):
        for name in RUNS_CODE:
            look.guard(root, name, "read")
        for path in _below(reach.kept, root):
            look.guard(root, path, "read")
        for path in _below(credentials_of(reach), root):
            look.guard(root, path, "nothing")
        look.guard_git(root)
    for folder in repositories:
        # From the workspace on: the folders above it become entries too, and cannot be moved away with what they hold.
        look.guard_git(reach.workspace, f"{os.path.relpath(folder, reach.workspace)}/")
    return sorted(look.found.values(), key=lambda one: one.path), sorted(look.missing)


def writable_roots(reach: Reach) -> tuple[str, ...]:
    return () if reach.level == "read-only" else (reach.workspace, *reach.writable)


def credentials_of(reach: Reach) -> tuple[str, ...]:
    return (*(_join(reach.home, name) for name in CREDENTIALS), *OF_SYSTEM, *reach.hidden)


def _below(paths: Iterable[str], root: str) -> Iterator[str]:
    inside = root.rstrip("/") + "/"
    return (path.removeprefix(inside) for path in paths if path.startswith(inside))


class _Look:
    def __init__(self, stubs: Set[str]) -> None:
        self.found: dict[str, Guarded] = {}
        self.missing: set[str] = set()
        self._stubs = stubs

    def guard_git(self, root: str, above: str = "") -> None:
        """A repository's folder is guarded in parts; a `.git` that is a file, or not there, as a whole."""
        path = _join(root, f"{above}.git")
        if path not in self._stubs and is_folder(path):
            for name in OF_GIT:
                self.guard(root, f"{above}.git/{name}", "read")
        else:
            self.guard(root, f"{above}.git", "read")

    def guard(self, root: str, name: str, access: Access) -> None:
        parts = name.split("/")
        for depth in range(1, len(parts) + 1):
            path = _join(root, *parts[:depth])
            try:
                status = os.lstat(path)
            except NotADirectoryError:
                return  # a file stands where the folder would: nothing can come into being below it
            except FileNotFoundError:
                self.missing.add(path)
                return
            if path in self._stubs:
                self.missing.add(path)
                return
            self._keep(path, status, access if depth == len(parts) else "write")

    def _keep(self, path: str, status: os.stat_result, access: Access) -> None:
        if stat.S_ISLNK(status.st_mode):
            raise SandboxError(
                f"{path} is a symbolic link, and what it leads to cannot be protected: no command is run here.",
                remedy="Put the file or folder itself in its place, or set machine.sandbox to off.",
            )
        if path not in self.found or access != "write":
            self.found[path] = Guarded(path=path, access=access, key=(status.st_dev, status.st_ino))


def is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _join(root: str, *parts: str) -> str:
    return "/".join((root.rstrip("/"), *parts))
