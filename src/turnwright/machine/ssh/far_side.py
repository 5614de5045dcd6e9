"""Our end at the other computer: a local machine there, and who asks it is here.

Sent by `bundle.py` and run by whatever Python is there, so it imports nothing but what was sent. It ends, and kills
all that it runs, when its input closes or nothing was heard for long; and whoever kills it ends its commands too,
since they run under wardens.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from turnwright.machine.keeper import Keeper
from turnwright.machine.local import LocalMachine, open_local
from turnwright.machine.port import Absent, Captured, Command, FileContent, Finished, Keep, Stream, Unchanged
from turnwright.machine.processes import LocalProcess
from turnwright.machine.ssh.faults import told
from turnwright.machine.ssh.frames import Frames, encoded

UNHEARD_S = 90.0
"""After which the connection is taken for lost, though nothing says so."""
SNAPSHOT_S = 0.2
UNSENT_BYTES_MAX = 1024 * 1024
"""Output that waits for a slow connection. Beyond it a command's pipe is left full, as with any pipe."""
KEPT_S = 30 * 86_400.0
"""Long output of commands."""
_CLOSE_S = 3.0
_READ_BYTES = 256 * 1024

Asked = dict[str, Any]
Answer = tuple[Asked, bytes]


def main(home: str, mark: str) -> None:
    """`home` is where the bundle was unpacked: it goes when we do."""
    channel_in, channel_out = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    try:
        asyncio.run(_serve(channel_in, channel_out, home, mark))
    finally:
        shutil.rmtree(home, ignore_errors=True)


async def _serve(channel_in: int, channel_out: int, home: str, mark: str) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_READ_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(channel_in, "rb", 0))
    transport, protocol = await loop.connect_write_pipe(_Outgoing, os.fdopen(channel_out, "wb", 0))
    transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)
    side = FarSide(transport, protocol, home, mark)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        loop.add_signal_handler(number, reader.feed_eof)
    try:
        await side.listen(reader)
    finally:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(side.close(), _CLOSE_S)
        transport.abort()


class _Outgoing(asyncio.Protocol):
    """Tells when the way out is full, and when it is free again."""

    def __init__(self) -> None:
        self.full = False
        self.freed: list[Callable[[], None]] = []

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        waiting, self.freed = self.freed, []
        for go_on in waiting:
            go_on()


class FarSide:
    """Answers what is asked, in whatever order it is done."""

    def __init__(self, transport: asyncio.WriteTransport, way_out: _Outgoing, home: str, mark: str) -> None:
        self._transport = transport
        self._way_out = way_out
        self._home = Path(home)
        self._mark = mark
        self._keeper = Keeper()
        self._machine: LocalMachine | None = None
        self._processes: dict[int, _Watched] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def listen(self, reader: asyncio.StreamReader) -> None:
        frames = Frames()
        while True:
            try:
                piece = await asyncio.wait_for(reader.read(_READ_BYTES), UNHEARD_S)
            except TimeoutError:
                return
            if not piece:
                return
            for head, body in frames.feed(piece):
                self._hear(head, body)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        if self._machine is not None:
            await self._machine.close()
        await self._keeper.close()

    def _hear(self, head: Asked, body: bytes) -> None:
        number = head["id"]
        match head["do"]:
            case "hear":
                self._send({"id": number})
            case "cancel":
                if number in self._tasks:
                    self._tasks[number].cancel()
            case do:
                task = asyncio.ensure_future(self._answer(number, self._doing(do, head, body)))
                self._tasks[number] = task
                task.add_done_callback(lambda _: self._tasks.pop(number, None))

    async def _answer(self, number: int, doing: Coroutine[Any, Any, Answer]) -> None:
        try:
            head, body = await doing
        except Exception as fault:  # noqa: BLE001 - the rim: whoever asked raises it there
            self._send({"id": number, "fault": told(fault)})
        else:
            self._send({"id": number, "answer": head}, body)

    async def _doing(self, do: str, head: Asked, body: bytes) -> Answer:
        if do == "open":
            return await self._open(head), b""
        machine = self._machine
        assert machine is not None, "asked before it was opened"
        match do:
            case "stat":
                return plain(await machine.stat(head["path"])), b""
            case "read":
                content = await machine.read(head["path"], start=head["start"], bytes_max=head["bytes_max"])
                return _without_data(content), content.data
            case "write":
                wanted = _condition(head["only_if"])
                return plain(await machine.write(head["path"], body, only_if=wanted, mode=head["mode"])), b""
            case "list":
                return {"entries": [plain(entry) for entry in await machine.list_directory(head["path"])]}, b""
            case "remove":
                await machine.remove(head["path"])
                return {}, b""
            case "spawn":
                return await self._spawn(machine, head), b""
            case "stop":
                await self._processes[head["process"]].process.stop()
                return {}, b""
            case _:
                raise ValueError(f"asked to {do!r}")

    async def _open(self, head: Asked) -> Asked:
        if left := head["left_behind"]:
            await _end_left_behind(left)
        self._machine = open_local(
            Path.home() / head["workspace"],
            keeper=self._keeper,
            env=_environment(head["passed"], head["fixed"]),
            spool=_spool(Path.home() / head["spool"]),
        )
        return {"workspace": self._machine.workspace, "pid": os.getpid(), "home": str(self._home)}

    async def _spawn(self, machine: LocalMachine, head: Asked) -> Asked:
        number = head["id"]
        told_command = {
            **head["command"],
            "argv": tuple(head["command"]["argv"]),
            "keep": Keep(**head["command"]["keep"]),
        }
        watched = _Watched(number, self._send, self._way_out, live=head["live"])
        watched.process = await machine.spawn(Command(**told_command), watched.piece if head["live"] else None)
        self._processes[number] = watched
        watch = asyncio.ensure_future(watched.until_finished())
        watch.add_done_callback(lambda _: self._processes.pop(number, None))
        return {"pid": watched.process.pid}

    def _send(self, head: Asked, body: bytes = b"") -> None:
        if not self._transport.is_closing():
            self._transport.write(encoded(head, body))


class _Watched:
    """A command, and what is told of it unasked."""

    process: LocalProcess

    def __init__(self, number: int, send: Callable[..., None], way_out: _Outgoing, *, live: bool) -> None:
        self._number = number
        self._send = send
        self._way_out = way_out
        self._live = live
        self._shown = -1

    def piece(self, piece: bytes, stream: Stream) -> None:
        self._send({"of": self._number, "stream": stream}, piece)
        if self._way_out.full:
            self.process.pause()
            self._way_out.freed.append(self.process.resume)

    async def until_finished(self) -> None:
        waiting = asyncio.ensure_future(self.process.wait())
        try:
            while not (await asyncio.wait([waiting], timeout=None if self._live else SNAPSHOT_S))[0]:
                self._snapshot()
            head, body = packed(waiting.result())
            self._send({"of": self._number, "finished": head}, body)
        finally:
            waiting.cancel()

    def _snapshot(self) -> None:
        """What came so far, for who looks at a command that runs in the background."""
        stdout, stderr = self.process.output()
        if stdout.size + stderr.size != self._shown and not self._way_out.full:
            self._shown = stdout.size + stderr.size
            out, err = _captured(stdout), _captured(stderr)
            self._send(
                {"of": self._number, "so_far": {"stdout": out, "stderr": err}},
                stdout.head + stdout.tail + stderr.head + stderr.tail,
            )


def packed(finished: Finished) -> Answer:
    """The bytes of its output apart, in order."""
    stdout, stderr = finished.stdout, finished.stderr
    head = {**plain(finished), "stdout": _captured(stdout), "stderr": _captured(stderr)}
    return head, stdout.head + stdout.tail + stderr.head + stderr.tail


def _captured(captured: Captured) -> Asked:
    return {**plain(captured), "head": len(captured.head), "tail": len(captured.tail)}


def _without_data(content: FileContent) -> Asked:
    return {"stat": plain(content.stat), "sha256": content.sha256}


def plain(value: Any) -> Asked:
    """A struct as JSON holds it, those in it too."""
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    return {name: plain(each) if hasattr(each, "__struct_fields__") else each for name, each in fields.items()}


def _spool(folder: Path) -> Path:
    """Where long output is kept for later; what nobody will ask for any more goes."""
    oldest = time.time() - KEPT_S  # noqa: TID251 - compared with the times of files
    for path in folder.glob("output-*.txt"):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < oldest:
                path.unlink()
    return folder


def _condition(told_condition: Asked | None) -> Absent | Unchanged | None:
    if told_condition is None:
        return None
    return Unchanged(told_condition["sha256"]) if "sha256" in told_condition else Absent()


def _environment(passed: list[str], fixed: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in passed or name.startswith("LC_")}  # noqa: TID251 - the far side's own, and only what tools may see of it
    return {"PATH": os.defpath, **kept, **fixed}


async def _end_left_behind(left: Asked) -> None:
    """Our own program of a connection that was lost, if it is still there; with it go its commands."""
    pid, mark = int(left["pid"]), str(left["mark"])
    end = time.monotonic() + _CLOSE_S  # noqa: TID251 - bounds a wait on the far side, where no port is
    while _is_ours(pid, mark) and time.monotonic() < end:  # noqa: TID251
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.02)
    shutil.rmtree(left["home"], ignore_errors=True)


def _is_ours(pid: int, mark: str) -> bool:
    """By its arguments: the pid may be another's by now."""
    try:
        return mark.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        pass
    import subprocess

    shown = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, check=False).stdout
    return mark.encode() in shown
