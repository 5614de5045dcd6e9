"""Where a host can be found: one socket for each process, in a folder that only its user may enter."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from turnwright.journal.records import Holder
from turnwright.schema.errors import MachineError

FOLDER = "hosts"
PATH_BYTES_MAX = 100
"""The system takes 107 on Linux and 103 on macOS."""
SHORT = Path("/tmp")
BACKLOG = 64
TRIES = 5


def socket_folder(data: Path) -> Path:
    """Beside the journal. Where that is too deep for the name of a socket, a folder in /tmp stands for it."""
    folder = data / FOLDER
    if len(os.fsencode(folder)) + 1 + NAME_CHARS <= PATH_BYTES_MAX:
        return folder
    return SHORT / f"turnwright-{os.geteuid()}" / hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:16]


def socket_path(data: Path, holder: Holder) -> Path:
    """Whoever reads in the journal which process holds a conversation knows its socket too, and nobody is taken for a
    dead process that had the same pid."""
    who = hashlib.sha256(f"{holder.host} {holder.pid} {holder.start_time}".encode()).hexdigest()[:16]
    return socket_folder(data) / f"{holder.pid:010d}-{who}.sock"


NAME_CHARS = 10 + 1 + 16 + len(".sock")


def listening(path: Path) -> socket.socket:
    """Bound and listening, and what dead hosts left there is gone. Raises MachineError where that cannot be."""
    try:
        for tries_left in reversed(range(TRIES)):
            try:
                return _listening(path)
            except FileNotFoundError:  # the last one to leave has just taken the folder away
                if not tries_left:
                    raise
        raise AssertionError("the last try returns or raises")
    except OSError as bad:
        raise MachineError(
            f"The socket {path}, on which others could reach this turn, cannot be made: {bad.strerror or bad}.",
            remedy="Check the rights to its folder and the space on its disk.",
        ) from bad


def _listening(path: Path) -> socket.socket:
    _make_private(path.parent)
    with _alone(path.parent):
        for stale in _stale(path.parent):
            stale.unlink(missing_ok=True)
        return _bound(path)


def left(path: Path) -> None:
    """Nothing is listening there any more, and nothing of it is left behind in /tmp."""
    path.unlink(missing_ok=True)
    if path.parent.parent.parent == SHORT:
        with suppress(OSError):  # others have theirs in it
            path.parent.rmdir()


def _bound(path: Path) -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        found.bind(str(path))
        path.chmod(0o600)
        found.listen(BACKLOG)
        found.setblocking(False)
    except BaseException:
        found.close()
        raise
    return found


def _make_private(folder: Path) -> None:
    """Each level that is made here is for this user alone. One in /tmp may be another's trap."""
    for each in (folder.parent, folder):
        with suppress(FileExistsError):
            each.mkdir(mode=0o700, parents=True)
    ours = (folder.parent, folder) if folder.parent.parent == SHORT else (folder,)
    for each in ours:
        found = each.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, f"{each} is not a folder of this user")
        if found.st_mode & 0o077:
            each.chmod(0o700)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """A socket that is bound and does not listen yet would look dead to whoever sweeps meanwhile."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _stale(folder: Path) -> Iterator[Path]:
    """Nobody listens there any more."""
    for path in folder.glob("*.sock"):
        if _refuses(path):
            yield path


def _refuses(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        asked.settimeout(0.2)
        try:
            asked.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:  # busy, or another user's: not ours to judge
            return False
    return False


def peer_uid(connection: socket.socket) -> int:
    """Who is at the other end, as the system knows it."""
    if hasattr(socket, "SO_PEERCRED"):
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        _, uid, _ = struct.unpack("3i", raw)
        return int(uid)
    local_peercred = 1  # macOS: struct xucred {version, uid, ...}
    return int(struct.unpack_from("2I", connection.getsockopt(0, local_peercred, 76))[1])
