"""Commands of one machine, each made ready to run where its reach ends."""

from __future__ import annotations

import asyncio
import marshal
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from turnwright.machine.ready import Ready, at_once, nothing
from turnwright.machine.sandbox.bubblewrap import INSIDE, TEMPORARY, mounts_of, options_of, rules_of
from turnwright.machine.sandbox.lite import lite_rules_of, only_workspace_rules_of
from turnwright.machine.sandbox.macos import PROGRAM, profile
from turnwright.machine.sandbox.means import Means
from turnwright.machine.sandbox.nested import Nested
from turnwright.machine.sandbox.reach import Reach, guarded
from turnwright.machine.sandbox.scratch import Scratch
from turnwright.machine.sandbox.stubs import Hold, Stubs
from turnwright.machine.warden import REPORT_FD
from turnwright.schema.sandbox import Confinement

PROXY_PORT = 3128
"""In a network of its own, so it is always free."""
PLAN_FD, OPTIONS_FD, DOOR_FD, HOLD_FD = range(REPORT_FD + 1, REPORT_FD + 5)
"""Where `inside.py` finds what it is handed. High, so that they never meet those that are being moved there."""


class Door(Protocol):
    """What answers for the hosts of a list, outside of the sandbox."""

    async def serve(self, listening: socket.socket) -> Callable[[], None]:
        """Take connections from this socket until the result is called."""
        ...


class WayOut:
    """From one command to the door: the socket that listens in the command's network is made there, and handed to us,
    so that nothing in there can open others."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._ours, theirs = socket.socketpair()
        self.theirs = theirs.detach()
        self._stop = nothing

    async def open(self) -> None:
        _, fds, _, _ = socket.recv_fds(self._ours, 1, 1)
        self._stop = await self._door.serve(socket.socket(fileno=fds[0]))

    def close(self) -> None:
        self._ours.close()
        self._stop()


class Sandbox:
    """For one machine. `own` is a folder of ours, out of reach for commands."""

    def __init__(
        self, reach: Reach, means: Means, own: Path, door: Door | None = None, scratch: Scratch | None = None
    ) -> None:
        self.reach = reach
        self.door = door
        self._scratch = scratch
        self._means = means
        self._stubs = Stubs(own / "stubs", reach.workspace)
        self._nested = Nested(reach.workspace)
        self._stubs.clear()

    @property
    def confinement(self) -> Confinement:
        return self._means.confinement(self.reach.level, self.reach.network)

    @property
    def temporary(self) -> Path:
        return Path(self.reach.temporary)

    @property
    def temporary_name(self) -> str:
        """What commands call it, where that is not its own name."""
        return TEMPORARY if self._means.tier == "namespaces" else ""

    def close(self) -> None:
        if self._scratch is not None:
            self._scratch.close()

    async def ready(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd_fd: int,
        *,
        talks: bool = False,
        only_workspace: bool = False,
    ) -> Ready:
        return await asyncio.to_thread(self._ready, argv, env, cwd_fd, talks, only_workspace)

    def _ready(self, argv: Sequence[str], env: Mapping[str, str], cwd_fd: int, talks: bool, narrow: bool) -> Ready:
        if self._means.tier == "macos":
            given = {**env, "TMPDIR": self.reach.temporary}
            return Ready(argv=(PROGRAM, "-p", profile(self.reach), *argv), env=given)
        status = os.fstat(cwd_fd)
        plan: dict[str, Any] = {
            "argv": [os.fsencode(one) for one in argv],
            "env": [os.fsencode(f"{name}={value}") for name, value in self._env(env).items()],
            "cwd": (status.st_dev, status.st_ino),
            "filter": self._means.filter(self.reach.network),
            "talks": talks,
            "stays": self._means.tier == "namespaces",
            "own_network": False,
            "network_fd": None,
            "network_port": PROXY_PORT,
        }
        if self._means.tier == "namespaces":
            return self._in_namespaces(plan, os.readlink(f"/proc/self/fd/{cwd_fd}"), narrow)  # noqa: PTH115
        return self._by_the_kernel(plan, narrow)

    def _by_the_kernel(self, plan: dict[str, Any], narrow: bool) -> Ready:
        landlock = self._means.landlock
        assert landlock is not None
        plan["mounts"] = []
        plan["own_network"] = self._means.own_network and self.reach.network != "open"
        rules = lite_rules_of(self.reach, landlock)
        if narrow:
            rules = only_workspace_rules_of(self.reach, landlock, plan["argv"][0], rules)
        plan["landlock"] = (landlock.attributes(), rules)
        return self._handed(plan, None, inside_argv(), [])

    def _in_namespaces(self, plan: dict[str, Any], cwd: str, narrow: bool) -> Ready:
        found, missing = guarded(self.reach, self._nested.repositories(), self._stubs.standing())
        hold = self._stubs.hold(missing) if missing else None
        try:
            mounts = mounts_of(self.reach, found, hold.paths if hold else ())
            plan["mounts"] = [(os.fsencode(one.path), one.key, one.read_only) for one in mounts if one.checked]
            landlock = self._means.landlock
            rules = rules_of(self.reach, landlock) if landlock else []
            if landlock and narrow:
                rules = only_workspace_rules_of(self.reach, landlock, plan["argv"][0])
            plan["landlock"] = (landlock.attributes(), rules) if landlock else None
            options = options_of(self.reach, mounts, cwd)
            told = (_memory("options", b"".join(os.fsencode(one) + b"\0" for one in options)), OPTIONS_FD)
            argv = (self._means.bubblewrap, "--args", str(OPTIONS_FD), "--", *inside_argv())
            return self._handed(plan, hold, argv, [told])
        except BaseException:
            if hold is not None:
                hold.release()
            raise

    def _handed(
        self, plan: dict[str, Any], hold: Hold | None, argv: tuple[str, ...], extra: list[tuple[int, int]]
    ) -> Ready:
        way_out = None
        if self.reach.network == "hosts" and self.door is not None:
            plan["network_fd"] = DOOR_FD
            way_out = WayOut(self.door)
            extra.append((way_out.theirs, DOOR_FD))
        if hold is not None:
            extra.append((os.dup(hold.fd), HOLD_FD))
        extra.append((_memory("plan", marshal.dumps(plan)), PLAN_FD))

        def over() -> None:
            if way_out is not None:
                way_out.close()
            if hold is not None:
                hold.release()

        return Ready(
            argv=argv,
            env={},
            started_by="parent" if plan["stays"] else "launcher",
            extra=tuple(extra),
            running=way_out.open if way_out else at_once,
            over=over,
        )

    def _env(self, env: Mapping[str, str]) -> dict[str, str]:
        given = {**env, "TMPDIR": TEMPORARY}
        if self._means.tier != "namespaces":
            given |= {"TMPDIR": self.reach.temporary, "XDG_CACHE_HOME": self.reach.cache}
        if self.reach.network == "hosts":
            proxy = f"http://127.0.0.1:{PROXY_PORT}"
            for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
                given[name] = given[name.lower()] = proxy
            given["NO_PROXY"] = given["no_proxy"] = "localhost,127.0.0.1,::1"
        return given


@cache
def inside_python() -> str:
    """The interpreter itself, not a venv's link to it: nothing is imported but its own library."""
    return os.path.realpath(sys.executable)


def inside_argv() -> tuple[str, ...]:
    # -I -S: neither the user's site packages nor the workspace decide what is imported.
    return (inside_python(), "-I", "-S", INSIDE, str(PLAN_FD), str(REPORT_FD))


def _memory(name: str, data: bytes) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
