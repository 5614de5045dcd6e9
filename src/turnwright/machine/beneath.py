"""Opening paths beneath a folder's descriptor, so that nothing a tool names can lead out of it.

On Linux the kernel does it (`openat2`); elsewhere, and where a container denies that call, component by component
without ever following a link that was not read first. Both refuse absolute links, also those that lead back inside.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
import sys
from collections import deque
from collections.abc import Callable

from turnwright.machine.port import OutsideWorkspace

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_LINKS_MAX = 40
_RACES_MAX = 128
_RESOLVE = 0x08 | 0x02  # RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS
_OPENAT2 = 437

MayMake = Callable[[int, str, str], None]
"""Raises where no folder of that name may be made there."""

Opener = Callable[[int, str, int], int]


def open_beneath(root_fd: int, relative: str, flags: int) -> int:
    """A descriptor of what `relative` leads to. Raises OutsideWorkspace where that is not beneath the root."""
    return _opener()(root_fd, relative or ".", flags | os.O_CLOEXEC | os.O_NOCTTY)


@functools.cache
def _opener() -> Opener:
    """`openat2` if it works here, found out by doing: old kernels lack it, some containers deny it."""
    kernel = _kernel_opener()
    if kernel is None:
        return walk_beneath
    probe = os.open("/", OPEN_FOLDER)
    try:
        os.close(kernel(probe, ".", OPEN_FOLDER))
    except OSError:
        return walk_beneath
    finally:
        os.close(probe)
    return kernel


def _kernel_opener() -> Opener | None:
    if sys.platform != "linux":
        return None
    import ctypes

    class OpenHow(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long

    def kernel_open(root_fd: int, relative: str, flags: int) -> int:
        how = OpenHow(flags=flags, mode=0, resolve=_RESOLVE)
        for _ in range(_RACES_MAX):
            fd: int = syscall(
                ctypes.c_long(_OPENAT2),
                ctypes.c_int(root_fd),
                ctypes.c_char_p(os.fsencode(relative)),
                ctypes.byref(how),
                ctypes.c_size_t(ctypes.sizeof(how)),
            )
            if fd >= 0:
                return fd
            code = ctypes.get_errno()
            if code == errno.EXDEV:
                raise OutsideWorkspace(relative)
            # EAGAIN: something was renamed while a `..` was resolved, and the kernel will not vouch for the result.
            if code not in (errno.EAGAIN, errno.EINTR):
                raise OSError(code, os.strerror(code), relative)
        raise OSError(errno.EAGAIN, "the folders on this path are being moved about", relative)

    return kernel_open


def walk_beneath(root_fd: int, relative: str, flags: int) -> int:
    """The same by hand: each component is opened without following, links are read and spliced in, `..` goes back
    to the descriptor we came from."""
    if relative.startswith("/"):
        raise OutsideWorkspace(relative)
    pending = deque(relative.split("/"))
    came_from = [os.dup(root_fd)]
    links = 0
    try:
        while pending:
            name = pending.popleft()
            if name in ("", "."):
                continue
            if name == "..":
                if len(came_from) == 1:
                    raise OutsideWorkspace(relative)
                os.close(came_from.pop())
                continue
            target = _link_target(name, came_from[-1])
            if target is not None:
                links += 1
                if links > _LINKS_MAX:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), relative)
                if target.startswith("/"):
                    raise OutsideWorkspace(relative)
                pending.extendleft(reversed(target.split("/")))
                continue
            if not pending:
                return os.open(name, flags | os.O_NOFOLLOW, dir_fd=came_from[-1])
            came_from.append(os.open(name, OPEN_FOLDER | os.O_NOFOLLOW, dir_fd=came_from[-1]))
        return os.open(".", flags, dir_fd=came_from[-1])
    finally:
        for fd in came_from:
            os.close(fd)


def _link_target(name: str, folder_fd: int) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder_fd)
    except OSError as not_a_link:
        if not_a_link.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def open_parent(
    root_fd: int, relative: str, made: list[str] | None = None, may_make: MayMake | None = None
) -> tuple[int, str]:
    """The folder that holds the file, and its name there; a link as last component is followed to its file.

    With `made`, missing folders are made and their names appended to it, each after `may_make` has agreed.
    """
    for _ in range(_LINKS_MAX):
        folder, _, name = relative.rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), relative)
        folder_fd = open_folder(root_fd, folder, made, may_make)
        target = _link_target_or_close(name, folder_fd)
        if target is None:
            return folder_fd, name
        os.close(folder_fd)
        if target.startswith("/"):
            raise OutsideWorkspace(relative)
        relative = f"{folder}/{target}" if folder else target
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), relative)


def _link_target_or_close(name: str, folder_fd: int) -> str | None:
    try:
        return _link_target(name, folder_fd)
    except OSError:
        os.close(folder_fd)
        raise


def open_folder(root_fd: int, relative: str, made: list[str] | None = None, may_make: MayMake | None = None) -> int:
    try:
        return open_beneath(root_fd, relative, OPEN_FOLDER)
    except FileNotFoundError:
        folder, _, name = relative.rstrip("/").rpartition("/")
        if made is None or name in ("", ".", ".."):
            raise
    parent_fd = open_folder(root_fd, folder, made, may_make)
    try:
        if may_make is not None:
            may_make(parent_fd, name, relative)
        os.mkdir(name, dir_fd=parent_fd)
        os.fsync(parent_fd)
        made.append(relative)
    except FileExistsError:
        pass  # made by someone else just now, or a link that leads nowhere: the open below tells which
    finally:
        os.close(parent_fd)
    return open_beneath(root_fd, relative, OPEN_FOLDER)


def pin(folder_fd: int, name: str) -> int | None:
    """A descriptor that only names the file: looking at a pipe, a device or a database this way does nothing to it.

    None where the platform has no such thing (macOS).
    """
    if sys.platform != "linux":
        return None
    return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)


def open_pinned(pinned_fd: int | None, folder_fd: int, name: str, looked_at: os.stat_result) -> int:
    """The very file that was looked at, for reading."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    if pinned_fd is not None:
        try:
            return os.open(f"/proc/self/fd/{pinned_fd}", flags)
        except FileNotFoundError:
            pass  # no /proc here: by name, and compared
    fd = os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder_fd)
    if not os.path.samestat(os.fstat(fd), looked_at):
        os.close(fd)
        raise OSError(errno.ESTALE, "the file was replaced while it was opened", name)
    return fd


def kind_of(mode: int) -> str:
    """What a file is, in words."""
    kinds = {
        stat.S_IFREG: "file",
        stat.S_IFDIR: "directory",
        stat.S_IFLNK: "link",
        stat.S_IFIFO: "named pipe",
        stat.S_IFSOCK: "socket",
        stat.S_IFCHR: "character device",
        stat.S_IFBLK: "block device",
    }
    return kinds.get(stat.S_IFMT(mode), "special file")
