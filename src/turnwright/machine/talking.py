"""A process that is talked with for as long as it lives, under a warden like any command: nothing it starts outlives
it, and it does not outlive us."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from turnwright.machine.beneath import OPEN_FOLDER
from turnwright.machine.capture import Capture
from turnwright.machine.keeper import Keeper
from turnwright.machine.port import Keep
from turnwright.machine.processes import LocalProcess, Output, start_under_warden
from turnwright.machine.ready import unconfined

if TYPE_CHECKING:
    from turnwright.machine.sandbox.confining import Sandbox

STDERR_KEPT = Keep(head_bytes=0, tail_bytes=8_000)


class Talk(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever starts it reads `stdout_fd`, writes `stdin_fd`, and closes both. `process` keeps the end of stderr."""

    process: LocalProcess
    stdin_fd: int
    stdout_fd: int

    def said(self) -> str:
        """The end of what it wrote to stderr."""
        captured, _ = self.process.output()
        return (captured.head + captured.tail).decode("utf-8", "replace")


async def start_talking(
    keeper: Keeper, argv: Sequence[str], env: Mapping[str, str], cwd: str, sandbox: Sandbox | None = None
) -> Talk:
    """`env` is the whole environment. OSError where the folder cannot be entered or the program not be started."""
    theirs = [os.open(cwd, OPEN_FOLDER)]
    ours: list[int] = []
    try:
        for _ in range(2):
            read, write = os.pipe()
            ours.append(read)
            theirs.append(write)
        read, write = os.pipe()
        theirs.append(read)
        ours.append(write)
        ready = await sandbox.ready(argv, env, theirs[0], talks=True) if sandbox else unconfined(argv, env)
        warden, pid = await start_under_warden(keeper, ready, theirs, argv[0], talks=True)
    except BaseException:
        _close(ours)
        raise
    finally:
        _close(theirs)
    stdout, stderr, stdin = ours
    os.set_blocking(stderr, False)
    output = Output(stderr, "stderr", Capture(STDERR_KEPT, None), None)
    process = LocalProcess(keeper, warden, pid, [output], None, ready.over)
    return Talk(process=process, stdin_fd=stdin, stdout_fd=stdout)


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
