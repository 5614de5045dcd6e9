"""Where commands and files live, in the words of the tools. Local, sandboxed and SSH machines satisfy `Machine`.

Paths are relative to the workspace, or absolute and inside it (or inside a folder the machine lets tools read, such
as the one where long output is kept; never written to). They are opened beneath a descriptor of that folder, never
checked first and opened later: a link, a `..` or a race that leads out is refused by the open itself.

Every failure is an `OSError` whose `strerror` is worded for a reader and whose `filename` is the path as it was given:
the usual ones (FileNotFoundError, IsADirectoryError, PermissionError, ...) and the ones below. `MachineError` means the
machine itself failed: nothing can be started, or the connection is gone.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from typing import Literal, Protocol, TypeAlias

import msgspec

from turnwright.schema.sandbox import Confinement

READ_BYTES_MAX = 16 * 1024 * 1024
"""What one `read` brings at most unless asked for less; a larger file is read in pieces."""


class OutsideWorkspace(PermissionError):
    """The path leads out of the workspace: by `..`, by an absolute path or by a link."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EXDEV, "the path leads out of the workspace", path)


class ForbiddenFile(PermissionError):
    """A file of the runtime itself (the journal), by whatever name it is reached."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EACCES, "the file belongs to the runtime and is closed to tools", path)


class ThroughLink(PermissionError):
    """A link to a file that other programs obey, or that holds keys."""

    def __init__(self, path: str, leads_to: str) -> None:
        super().__init__(
            errno.EPERM, f"the path is a link that leads to {leads_to}, which is only opened by its own name", path
        )


class NotRegular(OSError):
    """A pipe, socket or device where a file was expected. It was not opened."""

    def __init__(self, path: str, kind: str) -> None:
        super().__init__(errno.EINVAL, f"not a regular file but a {kind}", path)


class SharedFile(OSError):
    """More than one name for the same file: replacing this one would silently part it from the others."""

    def __init__(self, path: str, links: int) -> None:
        super().__init__(
            errno.EMLINK, f"the file has {links} hard links; writing would part it from its other names", path
        )


class FileChanged(OSError):
    """The file is not what the writer believed it to be."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ESTALE, "the file has changed since it was read", path)


FileKind: TypeAlias = Literal["file", "directory", "link", "other"]

FileKey: TypeAlias = tuple[int, int]
"""Device and inode: what a file is, whatever it is called."""


class FileStat(msgspec.Struct, frozen=True, kw_only=True):
    kind: FileKind
    size: int
    mtime_ns: int
    mode: int
    """Permission bits."""
    links: int = 1
    key: FileKey = (0, 0)


class FileContent(msgspec.Struct, frozen=True, kw_only=True):
    data: bytes
    stat: FileStat
    sha256: str | None = None
    """Hash of the whole file; None where `data` is only a piece of it."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One name in a folder. A link is shown as one, wherever it leads."""

    name: str
    kind: FileKind
    size: int
    mtime_ns: int


class Absent(msgspec.Struct, frozen=True):
    """Write only if there is no such file; FileExistsError otherwise."""


class Unchanged(msgspec.Struct, frozen=True):
    """Write only if the file still has this hash; FileChanged otherwise."""

    sha256: str


class Written(msgspec.Struct, frozen=True, kw_only=True):
    stat: FileStat
    sha256: str
    sha256_before: str | None
    """None where the file is new."""
    folders_made: tuple[str, ...] = ()
    """Folders that had to be made, outermost first, relative to the workspace."""


Stream: TypeAlias = Literal["stdout", "stderr"]

OnOutput: TypeAlias = Callable[[bytes, Stream], None]
"""Called with every piece as it comes; must return at once."""


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a stream stays in memory. More than that, or more lines, goes to a file as well if `spill`."""

    head_bytes: int = 50_000
    tail_bytes: int = 50_000
    lines: int | None = None
    spill: bool = False


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Something to run. It reads nothing: stdin is empty."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    """Added to the machine's own clean environment; nothing is inherited from the runtime."""
    cwd: str = "."
    timeout_s: float | None = None
    merged: bool = True
    """stderr goes where stdout goes, in the order it was written."""
    keep: Keep = Keep()
    only_workspace: bool = False
    """It needs to read nothing but the workspace; in a sandbox it is held to that. A path that was looked at can be
    another one when it is opened, and for a program of ours that may be anywhere."""


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream brought. While `size <= len(head)` the head is all of it and the tail is empty."""

    head: bytes = b""
    tail: bytes = b""
    """The last bytes, never overlapping the head."""
    size: int = 0
    lines: int = 0
    spilled_to: str | None = None
    spilled_bytes: int = 0
    """How much of `size`, from its start, is in the file `spilled_to`."""
    spill_fault: str = ""
    """Why the file could not be written, or not further."""


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended. `exit_code` is 128 + n where signal n ended it.

    `lost` is an honest "outcome unknown": whoever watched over the command died, or the connection did.
    """

    how: Literal["exited", "timeout", "stopped", "lost"]
    exit_code: int
    stdout: Captured
    stderr: Captured
    duration_s: float
    left_behind: int = 0
    """Processes that were still running when the command had ended by itself, and were killed."""
    unkillable: bool = False
    """Something would not die: a process of another user, or one stuck in the kernel."""


class Process(Protocol):
    """A running command and everything it starts."""

    @property
    def pid(self) -> int: ...

    @property
    def finished(self) -> Finished | None: ...

    def output(self) -> tuple[Captured, Captured]:
        """What came so far on stdout and stderr."""
        ...

    async def wait(self) -> Finished:
        """Until the command's own process ends, at most two seconds more for what its descendants still write.

        Cancelling the wait leaves the command running; see `run`.
        """
        ...

    async def stop(self) -> Finished:
        """Kill it and all its descendants; returns within a second whatever they do. Idempotent."""
        ...


class Machine(Protocol):
    @property
    def workspace(self) -> str:
        """Absolute path of the workspace on that machine."""
        ...

    @property
    def confinement(self) -> Confinement:
        """What confines commands here."""
        ...

    async def stat(self, path: str) -> FileStat:
        """Of what the path leads to, links followed inside the workspace."""
        ...

    async def read(self, path: str, *, start: int = 0, bytes_max: int = READ_BYTES_MAX) -> FileContent:
        """A regular file, or a piece of one. Never blocks on a pipe or a device: they are refused unopened."""
        ...

    async def write(
        self, path: str, data: bytes, *, only_if: Absent | Unchanged | None = None, mode: int | None = None
    ) -> Written:
        """Replace or make a file, all or nothing, durable on return. Missing folders are made.

        An existing file keeps its mode (unless `mode` is given) and, where we may, its owner. A link is followed to
        the file it names.
        """
        ...

    async def list_directory(self, path: str = ".") -> tuple[Entry, ...]:
        """What is in a folder, sorted by name."""
        ...

    async def remove(self, path: str) -> None:
        """A file, a link (not what it leads to) or an empty folder."""
        ...

    async def spawn(self, command: Command, on_output: OnOutput | None = None) -> Process:
        """OSError, with the program as `filename`, where it cannot be started; MachineError where nothing can."""
        ...

    async def close(self) -> None:
        """Stop every process that was spawned here. The machine cannot be used afterwards."""
        ...


async def run(machine: Machine, command: Command, on_output: OnOutput | None = None) -> Finished:
    """Spawn and wait. Leaving early, by cancellation above all, kills the command and all it started."""
    process = await machine.spawn(command, on_output)
    try:
        return await process.wait()
    finally:
        if process.finished is None:
            await process.stop()
