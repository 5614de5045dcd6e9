"""What bubblewrap is told, for a reach: an order of mounts, and which of them must be found afterwards."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from turnwright.machine.port import FileKey
from turnwright.machine.sandbox.landlock import Landlock
from turnwright.machine.sandbox.reach import Guarded, Reach, credentials_of, writable_roots

TEMPORARY = "/tmp"
INSIDE = str(Path(__file__).with_name("inside.py"))

FLAGS = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
    "--clearenv",
)
_PROC_READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "asound", "scsi")
"""What the kernel lets be written by whoever is root outside, capabilities or not. Others may write none of it."""
_SCRATCH = (TEMPORARY, "/var/tmp", "/dev/shm")
_RESOLVER = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    options: tuple[str, ...]
    checked: bool = False
    """Must be found in its place before anything runs: somebody may move what it lies on."""
    key: FileKey | None = None
    """The file it must then be; None for one that is new."""
    read_only: bool = False


def mounts_of(reach: Reach, found: Sequence[Guarded], stubs: Iterable[str]) -> list[Mount]:
    """In an order in which what lies deeper comes later, so that the deepest entry decides."""
    mounts = [
        *_system(reach),
        *_hidden(credentials_of(reach)),
        *_visible(reach.visible),
        *_roots(reach),
        *(_guard(one) for one in found),
        *(_stub(path) for path in stubs),
    ]
    by_path = {one.path: one for one in mounts}
    return sorted(by_path.values(), key=lambda one: one.path.rstrip("/").count("/"))


def options_of(reach: Reach, mounts: Iterable[Mount], cwd: str) -> list[str]:
    options = [*FLAGS, *(() if reach.network == "open" else ("--unshare-net",)), "--ro-bind", "/", "/"]
    for mount in mounts:
        options += mount.options
    return [*options, "--chdir", cwd]


def rules_of(reach: Reach, landlock: Landlock) -> list[tuple[bytes, int]]:
    """The same again for Landlock, which knows nothing of mounts: where one of the two errs, the other one holds."""
    writable = [*_SCRATCH, reach.temporary, reach.cache, *writable_roots(reach), _cache_place(reach)]
    return landlock.rules(["/"], [path for path in writable if path], ["/dev"])


def _system(reach: Reach) -> Iterator[Mount]:
    yield Mount(path="/dev", options=("--dev", "/dev"))
    yield Mount(path="/proc", options=("--proc", "/proc"))
    for name in _PROC_READ_ONLY if os.geteuid() == 0 else _PROC_READ_ONLY[:1]:
        if os.path.exists(f"/proc/{name}"):  # noqa: PTH110 - thirty times as quick
            yield Mount(path=f"/proc/{name}", options=("--ro-bind", f"/proc/{name}", f"/proc/{name}"))
    yield Mount(path="/run", options=("--tmpfs", "/run"))
    if reach.network == "open":
        for path in _RESOLVER:
            yield Mount(path=path, options=("--ro-bind-try", path, path))
    yield Mount(path=TEMPORARY, options=("--bind", reach.temporary, TEMPORARY))
    if is_real_folder("/var/tmp"):
        yield Mount(path="/var/tmp", options=("--tmpfs", "/var/tmp"))
    if place := _cache_place(reach):
        yield Mount(path=place, options=("--bind", reach.cache, place))
    for path in dict.fromkeys((sys.base_prefix, sys.prefix, str(Path(INSIDE).parent))):
        if _is_covered(path):
            yield Mount(path=path, options=("--ro-bind", path, path))


def _cache_place(reach: Reach) -> str:
    """Where programs keep what they can get again. Empty where the home folder has no such place, or is written to
    anyway."""
    place = f"{reach.home}/.cache"
    inside = any(is_below(place, root) for root in writable_roots(reach))
    return "" if inside or _is_covered(place) or not is_real_folder(place) else place


def _hidden(paths: Iterable[str]) -> Iterator[Mount]:
    """Where a link stands in its place, what it leads to is hidden."""
    for path in paths:
        try:
            mode = os.stat(path).st_mode  # noqa: PTH116
        except OSError:
            continue  # not there, and not to be made: what stands above it is read-only, or has a guard
        real = os.path.realpath(path)
        if _is_covered(real):
            continue
        if stat.S_ISDIR(mode):
            yield _empty(real)
        else:
            yield Mount(path=real, options=("--ro-bind", "/dev/null", real))


def _visible(paths: Iterable[str]) -> Iterator[Mount]:
    for path in paths:
        if is_real_folder(path):
            yield Mount(path=path, options=("--ro-bind", path, path))


def _roots(reach: Reach) -> Iterator[Mount]:
    roots = (reach.workspace, *reach.writable) if reach.level == "read-only" else writable_roots(reach)
    for path in roots:
        status = os.lstat(path)
        yield _bind(path, (status.st_dev, status.st_ino), read_only=reach.level == "read-only")


def _guard(one: Guarded) -> Mount:
    if one.access == "nothing":
        if is_real_folder(one.path):
            return _empty(one.path, checked=True)
        return Mount(path=one.path, options=("--ro-bind", "/dev/null", one.path), checked=True, read_only=True)
    return _bind(one.path, one.key, read_only=one.access == "read")


def _stub(path: str) -> Mount:
    return _empty(path, checked=True) if is_real_folder(path) else _bind(path, None, read_only=True)


def _bind(path: str, key: FileKey | None, *, read_only: bool) -> Mount:
    options = ("--ro-bind" if read_only else "--bind", path, path)
    return Mount(path=path, options=options, checked=True, key=key, read_only=read_only)


def _empty(path: str, *, checked: bool = False) -> Mount:
    """A folder with nothing in it. Whatever is put there is gone with the command, and was never outside. A bind that
    is read-only would say so sooner, and costs fifty times as much."""
    return Mount(path=path, options=("--perms", "0555", "--tmpfs", path), checked=checked)


def _is_covered(path: str) -> bool:
    """Below a folder that is another one inside."""
    return any(is_below(path, folder) for folder in (TEMPORARY, "/run", "/var/tmp", "/dev", "/proc"))


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_real_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
