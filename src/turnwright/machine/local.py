"""The computer we run on: files beneath the workspace, commands as the user who started us, in a sandbox or without."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from turnwright.machine.beneath import OPEN_FOLDER
from turnwright.machine.capture import Spool
from turnwright.machine.files import Files, Folder, Forbidden
from turnwright.machine.keeper import Keeper
from turnwright.machine.port import (
    READ_BYTES_MAX,
    Absent,
    Command,
    Entry,
    FileContent,
    FileStat,
    OnOutput,
    Unchanged,
    Written,
)
from turnwright.machine.processes import LocalProcess, start
from turnwright.schema.errors import InputError, MachineError
from turnwright.schema.masking import Masker
from turnwright.schema.sandbox import UNCONFINED, Confinement

if TYPE_CHECKING:
    from turnwright.machine.sandbox.confining import Sandbox

_CANCELLED_WAIT_S = 0.4

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class LocalMachine:
    """Satisfies `Machine`. Made by `open_local`; `keeper` is shared by all machines of the process."""

    def __init__(
        self,
        workspace: str,
        files: Files,
        folder_fds: Sequence[int],
        keeper: Keeper,
        env: Mapping[str, str],
        spool: Spool,
        sandbox: Sandbox | None = None,
    ) -> None:
        self.workspace = workspace
        self._files = files
        self._folder_fds = list(folder_fds)
        self._keeper = keeper
        self._env = dict(env)
        self._spool = spool
        self._sandbox = sandbox
        self._processes: set[LocalProcess] = set()
        self._file_work: set[asyncio.Future[Any]] = set()
        self._closed = False

    @property
    def confinement(self) -> Confinement:
        return UNCONFINED if self._sandbox is None else self._sandbox.confinement

    async def stat(self, path: str) -> FileStat:
        return await self._off_loop(self._files.stat, path)

    async def read(self, path: str, *, start: int = 0, bytes_max: int = READ_BYTES_MAX) -> FileContent:
        return await self._off_loop(self._files.read, path, start, bytes_max)

    async def write(
        self, path: str, data: bytes, *, only_if: Absent | Unchanged | None = None, mode: int | None = None
    ) -> Written:
        return await self._off_loop(self._files.write, path, data, only_if, mode)

    async def list_directory(self, path: str = ".") -> tuple[Entry, ...]:
        return await self._off_loop(self._files.list_directory, path)

    async def remove(self, path: str) -> None:
        await self._off_loop(self._files.remove, path)

    async def spawn(self, command: Command, on_output: OnOutput | None = None) -> LocalProcess:
        self._check_open()
        env = {**self._env, **command.env}
        cwd_fd = self._files.folder_fd(command.cwd)
        process = await start(self._keeper, command, env, cwd_fd, self._spool, on_output, self._sandbox)
        self._processes = {kept for kept in self._processes if kept.finished is None} | {process}
        return process

    async def close(self) -> None:
        self._closed = True
        await asyncio.gather(*(process.stop() for process in self._processes))
        self._processes.clear()
        if self._sandbox is not None:
            await asyncio.to_thread(self._sandbox.close)
        if self._file_work:
            await asyncio.wait(self._file_work, timeout=_CANCELLED_WAIT_S)
        if self._file_work:
            return  # stuck on a dead disk: it may still use the folders' descriptors, and must never meet other ones
        for fd in self._folder_fds:
            os.close(fd)
        self._folder_fds.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise MachineError(f"The machine of {self.workspace} was closed.")

    async def _off_loop(
        self, function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        """In a thread, since a disk may be slow. Cancelled, it waits a little for the call's end: a write that has
        begun should not land after the turn that cancelled it is over."""
        self._check_open()
        work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
        self._file_work.add(work)
        work.add_done_callback(self._file_work.discard)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait([work], timeout=_CANCELLED_WAIT_S)
            if work.done() and not work.cancelled():
                work.exception()  # nobody is left to hear of it
            raise


def open_local(
    workspace: Path,
    *,
    keeper: Keeper,
    env: Mapping[str, str],
    spool: Path,
    forbidden: Forbidden = frozenset,
    readable: Sequence[Path] = (),
    masker: Masker | None = None,
    sandbox: Sandbox | None = None,
) -> LocalMachine:
    """`env` is all that commands see. Long output is kept in `spool`; tools may read there and in `readable`.

    `sandbox` is this machine's from now on, and closed with it. `forbidden` names the files (device and inode) that no
    tool may open: the journal's. `masker` hides what must not be in the spool either.
    """
    spool.mkdir(mode=0o700, parents=True, exist_ok=True)
    folders: list[Folder] = []
    try:
        folders.append(_folder(workspace, writable=True))
        folders.extend(_folder(path, writable=False) for path in (spool, *readable))
        if sandbox is not None and sandbox.temporary_name:
            # Where commands say that they wrote it.
            folders.append(_folder(sandbox.temporary, writable=False, called=sandbox.temporary_name))
    except OSError as failed:
        for folder in folders:
            os.close(folder.fd)
        raise InputError(
            f"The folder {failed.filename} cannot be opened: {failed.strerror}.",
            remedy="Name an existing folder that you may read.",
        ) from failed
    files = Files(tuple(folders), forbidden)
    fds = [folder.fd for folder in folders]
    return LocalMachine(folders[0].names[0], files, fds, keeper, env, Spool(spool, masker), sandbox)


def _folder(path: Path, *, writable: bool, called: str = "") -> Folder:
    real = path.resolve(strict=True)
    names = dict.fromkeys((called,) if called else (str(real), str(path.absolute())))
    return Folder(fd=os.open(real, OPEN_FOLDER), names=tuple(names), writable=writable)
