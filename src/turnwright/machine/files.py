"""Files of a local machine, by synchronous calls on folder descriptors. `LocalMachine` makes them off the loop."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat as modes
from collections.abc import Callable, Iterator

import msgspec

from turnwright.machine.beneath import OPEN_FOLDER, kind_of, open_beneath, open_folder, open_parent, open_pinned, pin
from turnwright.machine.obeyed import refuse_disguised
from turnwright.machine.port import (
    Absent,
    Entry,
    FileChanged,
    FileContent,
    FileKey,
    FileKind,
    FileStat,
    ForbiddenFile,
    NotRegular,
    OutsideWorkspace,
    SharedFile,
    Unchanged,
    Written,
)

Forbidden = Callable[[], frozenset[FileKey]]
"""Asked at every open: a database makes and drops its side files as it goes."""

_PIECE_BYTES = 1024 * 1024
_temporary_numbers = itertools.count()


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """A root that tools may name paths in. `names` are the absolute paths under which it is known."""

    fd: int
    names: tuple[str, ...]
    writable: bool

    def relative(self, path: str) -> str | None:
        """`path` as seen from here; None where it does not begin here."""
        if not path.startswith("/"):
            return path
        for name in self.names:
            if path == name:
                return "."
            if path.startswith(name.rstrip("/") + "/"):
                return path[len(name.rstrip("/")) + 1 :].lstrip("/") or "."
        return None


class Files:
    """File operations of one machine. `folders[0]` is the workspace; relative paths are relative to it."""

    def __init__(self, folders: tuple[Folder, ...], forbidden: Forbidden) -> None:
        self._folders = folders
        self._forbidden = forbidden

    def stat(self, path: str) -> FileStat:
        folder, relative = self._place(path)
        with _named(path):
            try:
                folder_fd, name = open_parent(folder.fd, relative)
            except IsADirectoryError:  # `.`, `..` and what ends in them
                folder_fd, name = open_beneath(folder.fd, relative, OPEN_FOLDER), "."
            with _closing(folder_fd):
                return _stat_of(os.stat(name, dir_fd=folder_fd, follow_symlinks=False))

    def read(self, path: str, start: int, bytes_max: int) -> FileContent:
        folder, relative = self._place(path)
        with _named(path):
            folder_fd, name = open_parent(folder.fd, relative)
            with _closing(folder_fd):
                refuse_disguised(folder.fd, folder_fd, name, relative, path, writing=False)
                fd = self._open_regular(folder_fd, name, path)
            with _closing(fd):
                status = os.fstat(fd)
                data = _read_piece(fd, start, bytes_max)
                whole = start == 0 and len(data) >= status.st_size
        return FileContent(data=data, stat=_stat_of(status), sha256=_sha256(data) if whole else None)

    def write(self, path: str, data: bytes, only_if: Absent | Unchanged | None, mode: int | None) -> Written:
        folder, relative = self._place(path, writing=True)
        made: list[str] = []
        with _named(path):

            def agree(parent_fd: int, name: str, relative: str) -> None:
                refuse_disguised(folder.fd, parent_fd, name, relative, path, writing=True)

            folder_fd, name = open_parent(folder.fd, relative, made, agree)
            with _closing(folder_fd):
                agree(folder_fd, name, relative)
                before, sha256_before = self._look_before_writing(folder_fd, name, path, only_if)
                status = _replace(folder_fd, name, data, before, mode, exclusive=isinstance(only_if, Absent))
        return Written(
            stat=_stat_of(status), sha256=_sha256(data), sha256_before=sha256_before, folders_made=tuple(made)
        )

    def list_directory(self, path: str) -> tuple[Entry, ...]:
        folder, relative = self._place(path)
        with _named(path):
            fd = open_beneath(folder.fd, relative, OPEN_FOLDER)
            with _closing(fd), os.scandir(fd) as found:
                return tuple(sorted(_entries(found), key=lambda entry: entry.name))

    def remove(self, path: str) -> None:
        folder, relative = self._place(path, writing=True)
        parent, _, name = relative.rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            raise OSError(errno.EINVAL, "names a folder by its own inside; give its name", path)
        with _named(path):
            folder_fd = open_folder(folder.fd, parent)
            with _closing(folder_fd):
                refuse_disguised(folder.fd, folder_fd, name, relative, path, writing=True)
                status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
                self._refuse_forbidden(status, path)
                if modes.S_ISDIR(status.st_mode):
                    os.rmdir(name, dir_fd=folder_fd)
                else:
                    os.unlink(name, dir_fd=folder_fd)
                os.fsync(folder_fd)

    def folder_fd(self, path: str) -> int:
        """A descriptor of a folder of the workspace, to run a command in. The caller closes it."""
        folder, relative = self._place(path, writing=True)
        with _named(path):
            return open_beneath(folder.fd, relative, OPEN_FOLDER)

    def _place(self, path: str, *, writing: bool = False) -> tuple[Folder, str]:
        if not path:
            raise FileNotFoundError(errno.ENOENT, "the path is empty", path)
        if "\0" in path:
            raise OSError(errno.EINVAL, "the path contains a NUL character", path)
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise OSError(errno.EINVAL, "the path is not valid text", ascii(path)) from None
        for folder in self._folders:
            relative = folder.relative(path)
            if relative is not None and (folder.writable or not writing):
                return folder, relative
        raise OutsideWorkspace(path)

    def _refuse_forbidden(self, status: os.stat_result, path: str) -> None:
        if (status.st_dev, status.st_ino) in self._forbidden():
            raise ForbiddenFile(path)

    def _refuse_irregular(self, status: os.stat_result, path: str) -> None:
        self._refuse_forbidden(status, path)
        if modes.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        if not modes.S_ISREG(status.st_mode):
            raise NotRegular(path, kind_of(status.st_mode))

    def _open_regular(self, folder_fd: int, name: str, path: str) -> int:
        """Look first through a descriptor that does nothing, then open what was looked at (J1a: not even opening and
        closing the journal's file is harmless)."""
        pinned_fd = pin(folder_fd, name)
        try:
            if pinned_fd is not None:
                status = os.fstat(pinned_fd)
            else:
                status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
            self._refuse_irregular(status, path)
            return open_pinned(pinned_fd, folder_fd, name, status)
        finally:
            if pinned_fd is not None:
                os.close(pinned_fd)

    def _look_before_writing(
        self, folder_fd: int, name: str, path: str, only_if: Absent | Unchanged | None
    ) -> tuple[os.stat_result | None, str | None]:
        try:
            status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        except FileNotFoundError:
            if isinstance(only_if, Unchanged):
                raise FileChanged(path) from None
            return None, None
        if isinstance(only_if, Absent):
            raise FileExistsError(errno.EEXIST, "the file exists already", path)
        self._refuse_irregular(status, path)
        if status.st_nlink > 1:
            raise SharedFile(path, status.st_nlink)
        if not os.access(name, os.W_OK, dir_fd=folder_fd):
            raise PermissionError(errno.EACCES, "the file is read-only", path)
        fd = self._open_regular(folder_fd, name, path)
        with _closing(fd):
            sha256 = _sha256_of_file(fd)
        if isinstance(only_if, Unchanged) and only_if.sha256 != sha256:
            raise FileChanged(path)
        return status, sha256


def _replace(
    folder_fd: int, name: str, data: bytes, before: os.stat_result | None, mode: int | None, *, exclusive: bool
) -> os.stat_result:
    """Write aside, make it durable, then give it the name: whoever looks sees the old file or the new one."""
    wanted = mode if mode is not None else (modes.S_IMODE(before.st_mode) if before else None)
    fd, temporary = _open_temporary(folder_fd, 0o666 if wanted is None else wanted & 0o700 | 0o600)
    try:
        with _closing(fd):
            _write_all(fd, data)
            if before is not None:
                _keep_owner(fd, before)
            if wanted is not None:
                os.fchmod(fd, wanted)
            os.fsync(fd)
            status = os.fstat(fd)
        if exclusive and _link_if_absent(folder_fd, temporary, name):
            os.unlink(temporary, dir_fd=folder_fd)
        else:
            os.rename(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder_fd)
        raise
    os.fsync(folder_fd)
    return status


def _link_if_absent(folder_fd: int, temporary: str, name: str) -> bool:
    """Give the name only if nothing has it. False where the file system has no hard links to do that with."""
    try:
        os.link(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            return False
        raise
    return True


def _open_temporary(folder_fd: int, mode: int) -> tuple[int, str]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        name = f".turnwright-{os.getpid()}-{next(_temporary_numbers)}.tmp"
        with contextlib.suppress(FileExistsError):
            return os.open(name, flags, mode, dir_fd=folder_fd), name


def _keep_owner(fd: int, before: os.stat_result) -> None:
    """As root, or for a group of ours, the file stays whose it was; otherwise it becomes ours, as with any editor
    that replaces files."""
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(fd, before.st_uid, before.st_gid)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _read_piece(fd: int, start: int, bytes_max: int) -> bytes:
    pieces: list[bytes] = []
    left = bytes_max
    while left > 0:
        piece = os.pread(fd, min(left, _PIECE_BYTES), start)
        if not piece:
            break
        pieces.append(piece)
        start += len(piece)
        left -= len(piece)
    return b"".join(pieces)


def _sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _sha256_of_file(fd: int) -> str:
    import hashlib

    digest = hashlib.sha256()
    while piece := os.read(fd, _PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def _entries(found: Iterator[os.DirEntry[str]]) -> Iterator[Entry]:
    for entry in found:
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # gone since the folder was read
        name = os.fsdecode(entry.name)
        yield Entry(name=name, kind=_file_kind(status), size=status.st_size, mtime_ns=status.st_mtime_ns)


def _file_kind(status: os.stat_result) -> FileKind:
    match modes.S_IFMT(status.st_mode):
        case modes.S_IFREG:
            return "file"
        case modes.S_IFDIR:
            return "directory"
        case modes.S_IFLNK:
            return "link"
        case _:
            return "other"


def _stat_of(status: os.stat_result) -> FileStat:
    return FileStat(
        kind=_file_kind(status),
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        mode=modes.S_IMODE(status.st_mode),
        links=status.st_nlink,
        key=(status.st_dev, status.st_ino),
    )


@contextlib.contextmanager
def _closing(fd: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Errors name the path as it was given, not the component or descriptor at which it failed."""
    try:
        yield
    except OSError as error:
        error.filename = path
        raise
