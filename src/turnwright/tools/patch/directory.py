"""A patch applied to a folder of this computer, all or nothing: what `turnwright patch apply` does.

Everything is written aside and made durable first; then names are switched one after the other, with the old files
kept until the last switch. A failure anywhere puts the old names back. A crash can only fall between two renames.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from turnwright.machine.beneath import OPEN_FOLDER, open_parent
from turnwright.machine.files import Files, Folder
from turnwright.machine.port import READ_BYTES_MAX, FileStat
from turnwright.schema.errors import InputError
from turnwright.tools.patch.formats import DiffMode, Format, names_its_file, parse
from turnwright.tools.patch.operations import Change, Missing, Obstacle, Plan, State, TextFile
from turnwright.tools.text import Binary, decode, encode

_numbers = itertools.count()


def apply_to_directory(
    form: Format, text: str, directory: Path, *, path: str = "", mode: DiffMode | None = None
) -> tuple[str, ...]:
    """Returns a line for each file. Raises ToolFailure where the patch is refused and InputError where the folder is
    not what it should be; in both cases nothing was changed.

    A `v4a_diff` that names no file is for the only file of the folder.
    """
    try:
        root_fd = os.open(directory, OPEN_FOLDER)
    except OSError as fault:
        raise InputError(f"Cannot use the folder {directory}: {fault.strerror}.") from fault
    try:
        workshop = Workshop(root_fd)
        if form == "v4a_diff" and not path and not names_its_file(text):
            path = workshop.only_file()
        parsed = parse(form, text, path=path, mode=mode)
        done: Plan = parsed.plan({name: workshop.load(name) for name in parsed.paths})
        workshop.commit(done.changes)
    except OSError as fault:
        raise InputError(f"{fault.filename or directory}: {fault.strerror}. Nothing was changed.") from fault
    finally:
        os.close(root_fd)
    return done.report


@dataclass
class Switch:
    """One file on its way: what was written aside, and where the old one waits."""

    path: str
    folder_fd: int
    name: str
    existed: bool
    written: str | None = None
    kept: str | None = None
    done: bool = False


@dataclass
class Workshop:
    root_fd: int
    switches: list[Switch] = field(default_factory=list)
    seen: dict[str, FileStat] = field(default_factory=dict)
    folders_made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.files = Files((Folder(fd=self.root_fd, names=(), writable=True),), frozenset)

    def only_file(self) -> str:
        """The folder's one file, for a format that names none."""
        files = [entry.name for entry in self.files.list_directory(".") if entry.kind == "file"]
        if len(files) != 1:
            raise InputError(
                f"A v4a_diff does not say which file it is for, and the folder has {len(files)}.",
                remedy="Begin it with the line '*** Update File: ' and the path.",
            )
        return files[0]

    def load(self, path: str) -> State:
        try:
            status = self.files.stat(path)
        except (FileNotFoundError, NotADirectoryError) as fault:
            return Missing() if isinstance(fault, FileNotFoundError) else Obstacle("beneath a file, not a folder")
        if status.kind != "file":
            return Obstacle(f"a {status.kind}" if status.kind != "other" else "not a regular file")
        content = self.files.read(path, 0, READ_BYTES_MAX)
        self.seen[path] = content.stat
        if content.sha256 is None:
            return Obstacle("too large to patch", removable=True)
        match decode(content.data):
            case Binary(kind=kind):
                return Obstacle(kind, removable=True)
            case decoded:
                return TextFile(decoded.text, decoded.encoding, status.mode)

    def commit(self, changes: Sequence[Change]) -> None:
        try:
            for change in changes:
                with _named(change.path):
                    self._stage(change)
            for switch in self.switches:
                with _named(switch.path):
                    self._switch(switch)
        except BaseException:
            self._undo()
            raise
        else:
            for switch in self.switches:
                if switch.kept is not None:
                    os.unlink(switch.kept, dir_fd=switch.folder_fd)
        finally:
            for switch in self.switches:
                os.fsync(switch.folder_fd)
                os.close(switch.folder_fd)

    def _stage(self, change: Change) -> None:
        folder_fd, name = open_parent(self.root_fd, change.path, self.folders_made)
        existed = not isinstance(change.before, Missing)
        switch = Switch(change.path, folder_fd, name, existed)
        self.switches.append(switch)
        if existed:
            self._check_unchanged(switch)
        if isinstance(change.after, TextFile):
            data = encode(change.after.text, change.after.encoding, change.path)
            switch.written = _write_aside(folder_fd, data, change.after.mode)

    def _check_unchanged(self, switch: Switch) -> None:
        now = os.stat(switch.name, dir_fd=switch.folder_fd, follow_symlinks=False)
        seen = self.seen[switch.path]
        if (now.st_size, now.st_mtime_ns, (now.st_dev, now.st_ino)) != (seen.size, seen.mtime_ns, seen.key):
            raise InputError(f"{switch.path} changed while the patch was read. Nothing was changed.")
        if now.st_nlink > 1:
            raise InputError(
                f"{switch.path} has {now.st_nlink} hard links; patching would part it from its other names.",
                remedy="Nothing was changed.",
            )
        # Asked of the kernel, as the tools do: root may write what its mode forbids to others.
        if not os.access(switch.name, os.W_OK, dir_fd=switch.folder_fd):
            raise InputError(
                f"{switch.path} is read-only. Nothing was changed.", remedy="Change its permissions first."
            )

    def _switch(self, switch: Switch) -> None:
        fd, name = switch.folder_fd, switch.name
        if switch.existed:
            kept = _free_name()
            if switch.written is None:
                os.rename(name, kept, src_dir_fd=fd, dst_dir_fd=fd)
            else:
                _link(name, kept, fd)
            switch.kept = kept
        if switch.written is not None:
            os.rename(switch.written, name, src_dir_fd=fd, dst_dir_fd=fd)
            switch.written = None
        switch.done = True

    def _undo(self) -> None:
        for switch in reversed(self.switches):
            fd = switch.folder_fd
            if switch.kept is not None:
                os.rename(switch.kept, switch.name, src_dir_fd=fd, dst_dir_fd=fd)
                with contextlib.suppress(FileNotFoundError):
                    # Still there where both were names of one file: then the rename does nothing.
                    os.unlink(switch.kept, dir_fd=fd)
                switch.kept = None
            elif switch.done:
                os.unlink(switch.name, dir_fd=fd)
        for switch in self.switches:
            if switch.written is not None:
                os.unlink(switch.written, dir_fd=switch.folder_fd)
                switch.written = None
        for folder in reversed(self.folders_made):
            with contextlib.suppress(OSError):  # something else may have moved in meanwhile; then it stays
                self.files.remove(folder)


def _link(name: str, kept: str, folder_fd: int) -> None:
    """A second name for the old file, so that its first never stops existing; a rename where links are not known."""
    try:
        os.link(name, kept, src_dir_fd=folder_fd, dst_dir_fd=folder_fd, follow_symlinks=False)
    except OSError:
        os.rename(name, kept, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)


def _write_aside(folder_fd: int, data: bytes, mode: int | None) -> str:
    name = _free_name()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o666, dir_fd=folder_fd)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        if mode is not None:
            os.fchmod(fd, mode)
        file.flush()
        os.fsync(fd)
    return name


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Faults name the file of the patch, not the one it is written to aside."""
    try:
        yield
    except OSError as fault:
        fault.filename, fault.filename2 = path, None
        raise


def _free_name() -> str:
    return f".turnwright-{os.getpid()}-{next(_numbers)}.patch"
