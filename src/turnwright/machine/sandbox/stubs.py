"""Empty folders in the places of files that must not come into being while a command runs.

A mount needs something to lie on. Where a protected file does not exist yet, an empty folder is made for it, which git
does not see, and is taken away when the last command that stands on it has ended: two sandboxes may run side by side
on one workspace. Who still holds is counted by locks on a file, which the kernel lets go with whoever held them, and
which folders are ours stands in another: what a killed process left is taken away by the next one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from turnwright.machine.port import FileKey
from turnwright.schema.errors import SandboxError

COMMON_DIR = "commondir"
"""Git refuses to work where this is a folder, or empty. So it is a file that says what holds without it."""
_SAYS_HERE = b".\n"


class _Made(msgspec.Struct, frozen=True, array_like=True):
    path: str
    key: FileKey


class Hold:
    """Keeps the folders standing until it is let go, by everyone who has its descriptor."""

    def __init__(self, stubs: Stubs, fd: int, paths: tuple[str, ...]) -> None:
        self.fd = fd
        self.paths = paths
        self._stubs = stubs

    def release(self) -> None:
        os.close(self.fd)
        self._stubs.clear()


class Stubs:
    """Those of one workspace. `folder` is ours, and out of reach for commands."""

    def __init__(self, folder: Path, workspace: str) -> None:
        name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:24]
        self._list = folder / f"{name}.json"
        self._holders = folder / f"{name}.lock"

    def hold(self, paths: Sequence[str]) -> Hold:
        with self._alone() as file:
            made = _read(file)
            for path in paths:
                with contextlib.suppress(FileExistsError):
                    _make(path)
                    made[path] = _key(os.lstat(path))
                if path not in made or not _is(path, made[path]):
                    _write(file, made)
                    raise SandboxError(f"{path} came into being while it was being protected.", remedy="Try again.")
            _write(file, made)
            fd = self._open(self._holders)
            fcntl.flock(fd, fcntl.LOCK_SH)
        return Hold(self, fd, tuple(paths))

    def standing(self) -> frozenset[str]:
        """The folders that we made and that are still there, whoever stands on them."""
        try:
            fd = os.open(self._list, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return frozenset()
        try:
            return frozenset(path for path, key in _read(fd).items() if _is(path, key))
        finally:
            os.close(fd)

    def clear(self) -> None:
        """Take them away, if nobody stands on them."""
        with self._alone() as file:
            fd = self._open(self._holders)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            finally:
                os.close(fd)
            for path, key in _read(file).items():
                if _is(path, key):
                    _remove(path)
            _write(file, {})

    @contextlib.contextmanager
    def _alone(self) -> Iterator[int]:
        self._list.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = self._open(self._list)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield fd
        finally:
            os.close(fd)

    @staticmethod
    def _open(path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _read(fd: int) -> dict[str, FileKey]:
    data = os.pread(fd, os.fstat(fd).st_size, 0)
    try:
        return {one.path: one.key for one in msgspec.json.decode(data or b"[]", type=list[_Made])}
    except msgspec.DecodeError:
        return {}  # cut off by a full disk: what it named stays, empty and harmless


def _write(fd: int, made: dict[str, FileKey]) -> None:
    data = msgspec.json.encode([_Made(path, key) for path, key in made.items()])
    if os.pread(fd, len(data) + 1, 0) == data:
        return
    os.ftruncate(fd, 0)
    os.pwrite(fd, data, 0)


def _make(path: str) -> None:
    if not path.endswith(f"/{COMMON_DIR}"):
        os.mkdir(path, 0o755)  # noqa: PTH102 - here and below: thirty times per command
        return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o444)
    try:
        os.write(fd, _SAYS_HERE)
    finally:
        os.close(fd)


def _remove(path: str) -> None:
    """Somebody may have put something into it from outside: then it is theirs, and stays."""
    with contextlib.suppress(OSError):
        os.unlink(path) if path.endswith(f"/{COMMON_DIR}") else os.rmdir(path)  # noqa: PTH106, PTH108


def _is(path: str, key: FileKey) -> bool:
    try:
        status = os.lstat(path)
    except OSError as gone:
        if gone.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
            return False
        raise
    return (stat.S_ISDIR(status.st_mode) or status.st_size == len(_SAYS_HERE)) and _key(status) == key


def _key(status: os.stat_result) -> FileKey:
    return (status.st_dev, status.st_ino)
