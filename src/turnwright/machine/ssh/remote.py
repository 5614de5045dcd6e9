"""Another computer, reached by ssh: the local machine of our own program there, seen from here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from turnwright.machine.port import (
    READ_BYTES_MAX,
    Absent,
    Captured,
    Command,
    Entry,
    FileContent,
    FileStat,
    Finished,
    OnOutput,
    Unchanged,
    Written,
)
from turnwright.machine.ssh.link import Answer, Asked, Host, LeftBehind, Link, Lost, connect
from turnwright.schema.errors import MachineError
from turnwright.schema.sandbox import UNCONFINED

SPOOL = ".cache/turnwright/output"
STOP_S = 1.0
_CAPTURED: dict[str, Any] = {}
_SIGKILL = 9

Struct = TypeVar("Struct", bound=msgspec.Struct)


class SshMachine:
    """Satisfies `Machine`. Made by `open_ssh`. A connection that was lost is made again by the next call: what had
    been started over the old one is ended first."""

    confinement = UNCONFINED

    def __init__(
        self, host: Host, workspace: str, passed: tuple[str, ...], fixed: Mapping[str, str], spool: str
    ) -> None:
        self.workspace = workspace
        self._host = host
        self._asked = {"passed": passed, "fixed": dict(fixed), "spool": spool}
        self._link: Link | None = None
        self._left: LeftBehind | None = None
        self._connecting = asyncio.Lock()
        self._processes: set[RemoteProcess] = set()
        self._closed = False

    async def open(self) -> None:
        await self._connected()

    async def stat(self, path: str) -> FileStat:
        answer, _ = await self._look("stat", {"path": path})
        return _read(answer, FileStat)

    async def read(self, path: str, *, start: int = 0, bytes_max: int = READ_BYTES_MAX) -> FileContent:
        answer, data = await self._look("read", {"path": path, "start": start, "bytes_max": bytes_max})
        return FileContent(data=data, stat=_read(answer["stat"], FileStat), sha256=answer["sha256"])

    async def write(
        self, path: str, data: bytes, *, only_if: Absent | Unchanged | None = None, mode: int | None = None
    ) -> Written:
        condition = None if only_if is None else msgspec.to_builtins(only_if)
        link = await self._connected()
        answer, _ = await link.ask("write", {"path": path, "only_if": condition, "mode": mode}, data)
        return _read(answer, Written)

    async def list_directory(self, path: str = ".") -> tuple[Entry, ...]:
        answer, _ = await self._look("list", {"path": path})
        return tuple(_read(entry, Entry) for entry in answer["entries"])

    async def remove(self, path: str) -> None:
        await (await self._connected()).ask("remove", {"path": path})

    async def spawn(self, command: Command, on_output: OnOutput | None = None) -> RemoteProcess:
        link = await self._connected()
        process = RemoteProcess(link, command, on_output)
        await process.start()
        self._processes = {kept for kept in self._processes if kept.finished is None} | {process}
        return process

    async def close(self) -> None:
        self._closed = True
        await asyncio.gather(*(process.stop() for process in self._processes))
        self._processes.clear()
        if self._link is not None:
            await self._link.close()

    async def _look(self, do: str, asked: Asked) -> Answer:
        """What changes nothing is asked once more where the connection was lost over it."""
        try:
            return await (await self._connected()).ask(do, asked)
        except Lost:
            return await (await self._connected()).ask(do, asked)

    async def _connected(self) -> Link:
        async with self._connecting:
            if self._closed:
                raise MachineError(f"The machine of {self.workspace} on {self._host.name} was closed.")
            link = self._link
            if link is None or link.why_lost:
                link = await connect(self._host)
                try:
                    self.workspace = await link.open({**self._asked, "workspace": self.workspace}, self._left)
                except BaseException:
                    await link.close()
                    raise
                self._link, self._left = link, link.left
            return link


class RemoteProcess:
    """A command over there. It ends with the connection: then nothing is known of how."""

    def __init__(self, link: Link, command: Command, on_output: OnOutput | None) -> None:
        self.pid = 0
        self.finished: Finished | None = None
        self._link = link
        self._command = command
        self._on_output = on_output
        self._number = 0
        self._so_far = Captured(), Captured()
        self._loop = asyncio.get_running_loop()
        self._started_at = self._loop.time()
        self._over = asyncio.Event()

    async def start(self) -> None:
        command = msgspec.to_builtins(self._command)
        asked = {"command": command, "live": self._on_output is not None}
        answer, _ = await self._link.ask("spawn", asked, hear=self._hear)
        self.pid, self._number = int(answer["pid"]), int(answer["number"])
        if self.finished is not None:
            self._link.hear_no_more(self._number)

    def output(self) -> tuple[Captured, Captured]:
        return (self.finished.stdout, self.finished.stderr) if self.finished is not None else self._so_far

    async def wait(self) -> Finished:
        await self._over.wait()
        assert self.finished is not None
        return self.finished

    async def stop(self) -> Finished:
        """Whatever the network does, this returns: then nothing is known of how it ended."""
        if self.finished is None:
            try:
                async with asyncio.timeout(STOP_S):
                    await self._link.ask("stop", {"process": self._number})
                    await self._over.wait()
            except (TimeoutError, MachineError):
                self._lost()
        return await self.wait()

    def _hear(self, head: dict[str, Any], body: bytes) -> None:
        match head:
            case {"stream": "stdout" | "stderr" as stream}:
                if self._on_output is not None:
                    self._on_output(body, stream)
            case {"so_far": {"stdout": dict(stdout), "stderr": dict(stderr)}}:
                self._so_far = _outputs(stdout, stderr, body)
            case {"finished": dict(finished)}:
                self._end(finished_of(finished, body))
            case _:
                self._lost()

    def _lost(self) -> None:
        stdout, stderr = self._so_far
        lasted_s = self._loop.time() - self._started_at
        self._end(Finished(how="lost", exit_code=128 + _SIGKILL, stdout=stdout, stderr=stderr, duration_s=lasted_s))

    def _end(self, finished: Finished) -> None:
        if self.finished is None:
            self.finished = finished
            self._link.hear_no_more(self._number)
            self._over.set()


def finished_of(told: dict[str, Any], body: bytes) -> Finished:
    stdout, stderr = _outputs(told["stdout"], told["stderr"], body)
    known = _read({**told, "stdout": _CAPTURED, "stderr": _CAPTURED}, Finished)
    return msgspec.structs.replace(known, stdout=stdout, stderr=stderr)


def _outputs(stdout: dict[str, Any], stderr: dict[str, Any], body: bytes) -> tuple[Captured, Captured]:
    out, rest = _captured(stdout, body)
    err, _ = _captured(stderr, rest)
    return out, err


def _captured(told: dict[str, Any], body: bytes) -> tuple[Captured, bytes]:
    head, tail = int(told["head"]), int(told["tail"])
    known = _read({**told, "head": b"", "tail": b""}, Captured)
    return (
        msgspec.structs.replace(known, head=body[:head], tail=body[head : head + tail]),
        body[head + tail :],
    )


def _read(answer: dict[str, Any], kind: type[Struct]) -> Struct:
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as bad:
        raise MachineError(f"The far side answered in a way that makes no sense: {bad}.") from bad


async def open_ssh(
    host: Host, workspace: str, *, passed: tuple[str, ...], fixed: Mapping[str, str], spool: str = SPOOL
) -> SshMachine:
    """`workspace` is a folder there, and so is `spool`, where long output is kept; relative to the home folder.
    `passed` names what commands see of the far side's own environment; `fixed` is added to it."""
    machine = SshMachine(host, workspace, passed, fixed, spool)
    await machine.open()
    return machine
