"""The runtime's end of the keeper: the process that has every command under its wardens (see `warden.py`)."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from turnwright.machine.hidden import hide_this_process
from turnwright.machine.warden import KEEPER_ORDER, WARDEN_READY
from turnwright.schema.errors import MachineError

_IDLE_MAX = 2
_CLOSE_S = 3.0
_CLOSE_POLL_S = 0.005


@dataclass(slots=True, frozen=True)
class Warden:
    """One that waits for a command, or has one."""

    pid: int
    channel: socket.socket


class Keeper:
    """Starts on first use and serves all machines of this process, from one event loop at a time.

    Wardens whose command left nothing behind are used again, so that a command rarely waits for a fork.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._ready: deque[Warden] = deque()
        self._asked = 0
        self._turn = asyncio.Lock()

    def begin(self) -> None:
        """Start now what takes its time to start, and wait for nothing: a command will come."""
        control = self._control or self._start()
        if not self._ready and not self._asked:
            self._ask(control)

    async def warden(self) -> Warden:
        async with self._turn:
            self.begin()
            control = self._control
            assert control is not None
            while not self._ready:
                await readable(control)
                self._receive(control)
            return self._ready.popleft()

    def take_back(self, warden: Warden) -> None:
        """One whose command has ended by itself and left no process."""
        if self._control is not None and len(self._ready) < _IDLE_MAX:
            self._ready.append(warden)
        else:
            warden.channel.close()

    def kill(self, warden: Warden) -> None:
        """For a warden that does not answer. The keeper inherits its processes and kills them."""
        if self._control is not None:
            self._send(self._control, KEEPER_ORDER.pack(b"k", warden.pid))

    async def close(self) -> None:
        """Ends the keeper, the wardens and all they still run."""
        control, process = self._control, self._process
        if control is None or process is None:
            return
        self._forget()
        waited_s = 0.0
        while process.poll() is None and waited_s < _CLOSE_S:
            await asyncio.sleep(_CLOSE_POLL_S)
            waited_s += _CLOSE_POLL_S
        if process.returncode is None:
            process.kill()
            process.wait()
        self._drop_stderr(process)

    def _start(self) -> socket.socket:
        hide_this_process()  # before there is anything beside it that could look
        ours, keepers = socket.socketpair()
        script = str(Path(__file__).with_name("warden.py"))
        try:
            # -I -S: neither the user's site packages nor the workspace decide what the keeper imports.
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", script, str(keepers.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(keepers.fileno(),),
                start_new_session=True,
                cwd="/",
                env={},
            )
        except OSError as failed:
            ours.close()
            raise MachineError(
                f"The process that watches over commands could not be started: {failed}.",
                remedy="Look at the limits on processes (ulimit -u) and memory.",
            ) from failed
        finally:
            keepers.close()
        ours.setblocking(False)
        self._control = ours
        return ours

    def _ask(self, control: socket.socket) -> None:
        self._asked += 1
        self._send(control, KEEPER_ORDER.pack(b"n", 0))

    def _send(self, control: socket.socket, order: bytes) -> None:
        try:
            control.send(order)
        except (BrokenPipeError, ConnectionResetError) as gone:
            raise self._lost() from gone

    def _receive(self, control: socket.socket) -> None:
        try:
            message, fds, _, _ = socket.recv_fds(control, WARDEN_READY.size, 1)
        except BlockingIOError:
            return
        except ConnectionResetError as gone:
            raise self._lost() from gone
        if not message:
            raise self._lost()
        self._asked -= 1
        (pid,) = WARDEN_READY.unpack(message)
        if pid < 0:
            raise MachineError(
                f"No process can be started: {os.strerror(-pid)}.",
                remedy="Look at the limits on processes (ulimit -u) and memory.",
            )
        channel = socket.socket(fileno=fds[0])
        channel.setblocking(False)
        channel.set_inheritable(False)
        self._ready.append(Warden(pid, channel))

    def _lost(self) -> MachineError:
        """Commands that run go on under their wardens; the next one starts another keeper."""
        process = self._process
        self._forget()
        said = ""
        if process is not None:
            process.kill()
            process.wait()
            said = self._drop_stderr(process)
        return MachineError(f"The process that watches over commands has died. {said}".strip(), remedy="Try again.")

    def _forget(self) -> None:
        if self._control is not None:
            self._control.close()
        for warden in self._ready:
            warden.channel.close()
        self._ready.clear()
        self._asked = 0
        self._control = self._process = None

    @staticmethod
    def _drop_stderr(process: subprocess.Popen[bytes]) -> str:
        """What it said last, without waiting for wardens that still hold the pipe."""
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        said = process.stderr.read() or b""
        process.stderr.close()
        return said.decode("utf-8", "replace")[-2_000:].strip()


async def readable(channel: socket.socket) -> None:
    """Wait until there is something to receive."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(channel, wake)
    try:
        await ready
    finally:
        loop.remove_reader(channel)
