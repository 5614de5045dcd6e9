"""The same reach without mounts: what Landlock can say of it. It grants and never takes back, so folders that hold
something hidden are granted piece by piece."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

from turnwright.machine.sandbox.landlock import READ_DIR, Landlock
from turnwright.machine.sandbox.reach import Reach, credentials_of, writable_roots

_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


def lite_rules_of(reach: Reach, landlock: Landlock) -> list[tuple[bytes, int]]:
    hidden = {os.path.realpath(path) for path in credentials_of(reach)}
    whole, listed = _around("/", hidden)
    writable = (reach.temporary, reach.cache, *writable_roots(reach))
    readable = (*whole, *reach.visible, reach.workspace, *reach.writable)
    return [
        *landlock.rules(readable, writable, DEVICES),
        *((os.fsencode(path), READ_DIR) for path in listed),
    ]


def only_workspace_rules_of(
    reach: Reach, landlock: Landlock, program: bytes, wider: list[tuple[bytes, int]] | None = None
) -> list[tuple[bytes, int]]:
    """For a program that only reads the workspace, and what a program needs to start. `wider` are the rules by which
    something in the workspace is hidden, where no mount hides it: then they stay."""
    if wider is not None and any(path.startswith(f"{reach.workspace}/") for path in credentials_of(reach)):
        return wider
    itself = os.path.dirname(os.path.realpath(program))  # noqa: PTH120
    return landlock.rules((reach.workspace, *reach.visible, *_SYSTEM, os.fsdecode(itself)), (), ("/dev/null",))


def _around(folder: str, hidden: Collection[str]) -> tuple[list[str], list[str]]:
    """What may be read as a whole, and the folders whose names alone may be."""
    whole: list[str] = []
    listed = [folder]
    for path, is_folder in _entries(folder):
        if path in hidden:
            continue
        if is_folder and any(one.startswith(f"{path}/") for one in hidden):
            below, names = _around(path, hidden)
            whole += below
            listed += names
        else:
            whole.append(path)
    return whole, listed


def _entries(folder: str) -> Iterator[tuple[str, bool]]:
    """Links need no grant: what they lead to has one or has none."""
    try:
        with os.scandir(folder) as entries:
            found = [(f"{folder.rstrip('/')}/{one.name}", one) for one in entries if not one.is_symlink()]
    except OSError:
        return  # not ours to read, then nor a command's
    for path, entry in found:
        yield path, entry.is_dir(follow_symlinks=False)
