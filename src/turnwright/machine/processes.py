"""Running commands on this computer, each under a warden of its own.

A command ends when its own process does, never when the pipe does: a grandchild may hold the pipe forever. What
descendants still write is read for two seconds more, then whatever is left of them is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Literal, TypeVarTuple, Unpack

from turnwright.machine.capture import Capture, Spool
from turnwright.machine.keeper import Keeper, Warden, readable
from turnwright.machine.port import Captured, Command, Finished, OnOutput, Stream
from turnwright.machine.ready import Ready, nothing, unconfined
from turnwright.machine.warden import WARDEN_REPORT
from turnwright.schema.errors import MachineError, SandboxError

if TYPE_CHECKING:
    from turnwright.machine.sandbox.confining import Sandbox

START_S = 5.0
DRAIN_S = 2.0
LINGER_S = 0.05
"""The same when nobody can write any more: long enough for those that are just exiting."""
GRACE_S = 0.2
"""Between asking processes to end and killing them."""
GIVE_UP_S = 0.8
"""After which a stop returns, though something will not die. The warden, or the keeper, goes on killing."""

_READ_BYTES = 64 * 1024
_LAST_READ_BYTES_MAX = 1024 * 1024
_SIGKILL = 9


class Unconfined(SandboxError):
    """The sandbox did not stand as it was promised, and the command was not run. Why stands in its output."""

    def __init__(self, program: str, why: str = "") -> None:
        super().__init__(
            f"{program!r} was not run: its sandbox could not be made. {why}".rstrip(),
            remedy="turnwright doctor says what this machine lacks; machine.sandbox: off runs without one.",
        )
        self.program = program


How = Literal["exited", "timeout", "stopped", "lost"]
Arguments = TypeVarTuple("Arguments")


class Output:
    """Our end of one pipe."""

    def __init__(self, fd: int, stream: Stream, capture: Capture, on_output: OnOutput | None) -> None:
        self.fd: int | None = fd
        self.capture = capture
        self._stream: Stream = stream
        self._on_output = on_output

    def read(self) -> int:
        """One piece. How long it was; 0 when there is nothing now, or nothing more (then `fd` is None)."""
        if self.fd is None:
            return 0
        try:
            piece = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return 0
        if not piece:
            self.close()
            return 0
        self.capture.feed(piece)
        if self._on_output is not None:
            self._on_output(piece, self._stream)
        return len(piece)

    def close(self) -> None:
        if self.fd is not None:
            asyncio.get_running_loop().remove_reader(self.fd)
            os.close(self.fd)
            self.fd = None


class LocalProcess:
    """A command and all it starts. Made by `start`."""

    def __init__(
        self,
        keeper: Keeper,
        warden: Warden,
        pid: int,
        outputs: list[Output],
        timeout_s: float | None,
        over: Callable[[], None] = nothing,
    ) -> None:
        self.pid = pid
        self.finished: Finished | None = None
        self._loop = asyncio.get_running_loop()
        self._started_at = self._loop.time()
        self._keeper, self._warden = keeper, warden
        self._outputs = outputs
        self._reports = bytearray()
        self._exit_code: int | None = None
        self._how: How = "exited"
        self._draining = False
        self._ordered = False
        self._over = asyncio.Event()
        self._let_go = over
        self._timers: list[asyncio.TimerHandle] = []
        for output in outputs:
            assert output.fd is not None
            self._loop.add_reader(output.fd, self._read, output)
        self._loop.add_reader(warden.channel, self._heard)
        if timeout_s is not None:
            self._later(timeout_s, self._begin_to_stop, "timeout")

    def pause(self) -> None:
        """Leave its output in the pipe, where whoever takes it from us cannot take more now."""
        for output in self._outputs:
            if output.fd is not None:
                self._loop.remove_reader(output.fd)

    def resume(self) -> None:
        for output in self._outputs:
            if output.fd is not None:
                self._loop.add_reader(output.fd, self._read, output)

    def output(self) -> tuple[Captured, Captured]:
        captured = [output.capture.captured() for output in self._outputs]
        return captured[0], captured[1] if len(captured) > 1 else Captured()

    async def wait(self) -> Finished:
        await self._over.wait()
        assert self.finished is not None
        return self.finished

    async def stop(self) -> Finished:
        self._begin_to_stop("stopped")
        return await self.wait()

    def _read(self, output: Output) -> None:
        output.read()
        if self._draining and self._all_read():
            self._cancel_timers()
            self._later(LINGER_S, self._kill_rest)

    def _all_read(self) -> bool:
        return all(output.fd is None for output in self._outputs)

    def _heard(self) -> None:
        """Reports of the warden."""
        try:
            received = self._warden.channel.recv(1024)
        except BlockingIOError:
            return
        except ConnectionResetError:
            received = b""
        if not received:
            if self._exit_code is None and self._how == "exited":
                self._how = "lost"
            self._finish(left_behind=0, unkillable=False)
            return
        self._reports += received
        while len(self._reports) >= WARDEN_REPORT.size and self.finished is None:
            kind, first, second = WARDEN_REPORT.unpack(self._reports[: WARDEN_REPORT.size])
            del self._reports[: WARDEN_REPORT.size]
            if kind == b"X":
                self._leader_ended(first, others_live=bool(second))
            else:
                self._finish(left_behind=first, unkillable=bool(second))

    def _leader_ended(self, exit_code: int, *, others_live: bool) -> None:
        self._exit_code = exit_code
        if self._how != "exited" or not others_live:
            return  # being killed already, or done: the warden's last report follows by itself
        self._cancel_timers()
        self._draining = True
        self._later(LINGER_S if self._all_read() else DRAIN_S, self._kill_rest)

    def _begin_to_stop(self, how: How) -> None:
        if self.finished is not None or self._how != "exited":
            return
        self._how = how if self._exit_code is None else self._how
        self._cancel_timers()
        self._order(b"t")
        self._later(GRACE_S, self._kill_rest)

    def _kill_rest(self) -> None:
        self._cancel_timers()
        self._order(b"k")
        self._later(GIVE_UP_S - GRACE_S, self._give_up)

    def _order(self, order: bytes) -> None:
        self._ordered = True
        # A warden that is gone says so by its closed channel, and then `_heard` ends this.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, BlockingIOError):
            self._warden.channel.send(order)

    def _give_up(self) -> None:
        with contextlib.suppress(MachineError):  # no keeper either: nothing more can be done from here
            self._keeper.kill(self._warden)
        self._finish(left_behind=0, unkillable=True)

    def _finish(self, *, left_behind: int, unkillable: bool) -> None:
        if self.finished is not None:
            return
        self._cancel_timers()
        self._loop.remove_reader(self._warden.channel)
        # An order may still be on its way to it, and would be taken for the beginning of its next command.
        if self._ordered or self._exit_code is None:
            self._warden.channel.close()
        else:
            self._keeper.take_back(self._warden)
        try:
            for output in self._outputs:
                self._read_what_is_there(output)
        finally:
            self.finished = self._summed_up(left_behind, unkillable)
            self._over.set()
            self._let_go()

    def _summed_up(self, left_behind: int, unkillable: bool) -> Finished:
        for output in self._outputs:
            output.close()
            output.capture.close()
        stdout, stderr = self.output()
        code = -_SIGKILL if self._exit_code is None else self._exit_code
        return Finished(
            how=self._how,
            exit_code=code if code >= 0 else 128 - code,
            stdout=stdout,
            stderr=stderr,
            duration_s=self._loop.time() - self._started_at,
            left_behind=left_behind if self._how == "exited" else 0,
            unkillable=unkillable,
        )

    @staticmethod
    def _read_what_is_there(output: Output) -> None:
        """No more than a pipe can hold, lest someone who got hold of the other end keeps us here."""
        left = _LAST_READ_BYTES_MAX
        while left > 0 and (length := output.read()):
            left -= length

    def _later(self, delay_s: float, callback: Callable[[Unpack[Arguments]], None], *args: *Arguments) -> None:
        self._timers.append(self._loop.call_later(delay_s, callback, *args))

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()


async def start(
    keeper: Keeper,
    command: Command,
    env: Mapping[str, str],
    cwd_fd: int,
    spool: Spool | None,
    on_output: OnOutput | None,
    sandbox: Sandbox | None = None,
) -> LocalProcess:
    """Run `command` in the folder `cwd_fd`, which is closed. `env` is the whole environment."""
    pipes = [os.pipe() for _ in range(1 if command.merged else 2)]
    for read, _ in pipes:
        os.set_blocking(read, False)
    try:
        ready = await _ready(sandbox, command, env, cwd_fd) if sandbox else unconfined(command.argv, env)
        warden, pid = await start_under_warden(keeper, ready, [cwd_fd, *(write for _, write in pipes)], command.argv[0])
    except BaseException as failed:
        why = b"".join(_written(read) for read, _ in pipes)
        for read, _ in pipes:
            os.close(read)
        if isinstance(failed, Unconfined):
            raise Unconfined(failed.program, why.decode(errors="replace").strip()) from failed
        raise
    finally:
        os.close(cwd_fd)
        for _, write in pipes:
            os.close(write)
    streams: tuple[Stream, Stream] = ("stdout", "stderr")
    outputs = [
        Output(read, stream, Capture(command.keep, spool), on_output)
        for (read, _), stream in zip(pipes, streams, strict=False)
    ]
    return LocalProcess(keeper, warden, pid, outputs, command.timeout_s, ready.over)


def _ready(sandbox: Sandbox, command: Command, env: Mapping[str, str], cwd_fd: int) -> Awaitable[Ready]:
    return sandbox.ready(command.argv, env, cwd_fd, only_workspace=command.only_workspace)


def _written(fd: int) -> bytes:
    try:
        return os.read(fd, _READ_BYTES)
    except BlockingIOError:
        return b""


async def start_under_warden(
    keeper: Keeper, ready: Ready, fds: list[int], program: str, *, talks: bool = False
) -> tuple[Warden, int]:
    """A warden with the command running. Cancelled, or failing, it closes the channel, and the warden kills."""
    try:
        with contextlib.closing(ready):
            request = ready.request(talks=talks)
            warden = await _warden_with_request(keeper, len(request), [*fds, *(fd for fd, _ in ready.extra)])
        return warden, await _started(keeper, warden, request, ready, program)
    except BaseException:
        ready.over()
        raise


async def _started(keeper: Keeper, warden: Warden, request: bytes, ready: Ready, program: str) -> int:
    try:
        async with asyncio.timeout(START_S):
            await asyncio.get_running_loop().sock_sendall(warden.channel, request)
            await readable(warden.channel)
        report = warden.channel.recv(WARDEN_REPORT.size)
        if len(report) < WARDEN_REPORT.size:
            raise MachineError(f"The watch over {program!r} died as it began; it may have been started.")
        kind, first, _ = WARDEN_REPORT.unpack(report)
        if kind == b"F":
            raise OSError(first, os.strerror(first), program)
        if kind == b"R":
            raise Unconfined(program)
        await ready.running()
    except TimeoutError as late:
        # A command may stop its warden before that could report: the keeper kills the one and inherits the other.
        keeper.kill(warden)
        warden.channel.close()
        raise MachineError(
            f"The watch over {program!r} did not answer within {START_S:g} s; it may have been started, and "
            "was killed.",
        ) from late
    except BaseException:
        warden.channel.close()
        raise
    pid: int = first
    return pid


async def _warden_with_request(keeper: Keeper, length: int, fds: list[int]) -> Warden:
    """One that took the descriptors. One that had died while it waited is passed over: it has started nothing."""
    while True:
        warden = await keeper.warden()
        try:
            socket.send_fds(warden.channel, [length.to_bytes(4, "little")], fds)
        except (BrokenPipeError, ConnectionResetError):
            warden.channel.close()
            continue
        return warden
