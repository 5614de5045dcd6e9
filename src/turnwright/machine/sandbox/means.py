"""By which means commands can be confined here: found out by running one, and by what it must not be able to do."""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from turnwright.machine.beneath import OPEN_FOLDER
from turnwright.machine.keeper import Keeper
from turnwright.machine.port import Command
from turnwright.machine.processes import start
from turnwright.machine.sandbox.filter import SocketReach, filter_for
from turnwright.machine.sandbox.landlock import Landlock, landlock_here
from turnwright.machine.sandbox.reach import Reach
from turnwright.machine.sandbox.remembered import BOOT, key_of, recall, remember
from turnwright.schema.errors import MachineError
from turnwright.schema.sandbox import Confinement, NetworkReach, SandboxLevel, SandboxTier

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
"""Where bubblewrap is looked for: never in what a workspace or its venv puts on the path."""
CANARY = str(Path(__file__).with_name("canary.py"))
CANARY_S = 20.0

ESSENTIAL = {
    "write": "write outside of the workspace",
    "read": "read what is hidden",
    "network": "reach the network",
    "sysctl": "change settings of the kernel",
    "capabilities": "keep powers of root",
}
"""What the canary may do in no tier: with one of them there is no sandbox."""
FILTERED = {
    "unix": "sockets of other programs are within reach",
    "namespaces": "namespaces can be made",
    "ptrace": "processes can be traced",
    "keys": "the kernel's keys are within reach",
}
"""What only the filter on system calls prevents."""

NO_BUBBLEWRAP = "bubblewrap is not installed"

LITE_LACKS = (
    "files in the workspace that make other programs run code (.git/hooks, .git/config, .turnwright, CI and shell "
    "files) can be changed by commands",
    "credentials inside the workspace are within reach",
    "commands see the processes and the /tmp of this computer",
)


MACOS_LACKS = (
    "system calls are not filtered, and commands see the processes of this computer",
    "this tier was written without a Mac to try it on",
)


class Means(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out."""

    tier: SandboxTier
    bubblewrap: str = ""
    landlock: Landlock | None = None
    filtered: bool = False
    own_network: bool = False
    """A network of its own can be had for a command."""
    missing: tuple[str, ...] = ()

    def filter(self, network: NetworkReach) -> bytes | None:
        sockets: SocketReach = "internet" if self.own_network or network == "open" else "none"
        return filter_for(platform.machine(), sockets) if self.filtered else None

    def confinement(self, level: SandboxLevel, network: NetworkReach) -> Confinement:
        return Confinement(level=level, tier=self.tier, network=network, missing=self.missing)


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one means. `means` is None where it does not hold, and then `why` says so."""

    tier: SandboxTier
    means: Means | None = None
    why: str = ""
    remedy: str = ""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """All that was tried, the best first, up to the first one that holds."""

    tried: tuple[Tried, ...]

    @property
    def best(self) -> Means | None:
        return next((one.means for one in self.tried if one.means is not None), None)


_found: list[Found] = []


def are_known() -> bool:
    return bool(_found)


async def means_here(keeper: Keeper, own: Path) -> Found:
    """Tried once in a process, below `own`; and where all went well, once for all processes until the next start."""
    if not _found:
        own = _private(own)
        key = key_of(shutil.which("bwrap", path=SYSTEM_PATH)) if BOOT.exists() else ""
        found = recall(own, key, Found) if key else None
        if found is None:
            found = await _try_all(keeper, own, candidates())
            if key and found.best is not None:
                remember(own, key, found)
        _found.append(found)
    return _found[0]


async def means_of(tier: SandboxTier, keeper: Keeper, own: Path) -> Found:
    """The same, of one tier alone."""
    own = _private(own)
    return await _try_all(keeper, own, (one for one in candidates() if one[1][0] == tier))


def _private(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder.resolve()


async def _try_all(keeper: Keeper, own: Path, among: Iterator[tuple[Means | None, tuple[SandboxTier, str]]]) -> Found:
    tried = []
    for means, why in among:
        if means is None:
            remedy = f"Run: {how_to_install()}" if why[1] == NO_BUBBLEWRAP else ""
            tried.append(Tried(tier=why[0], why=why[1], remedy=remedy))
            continue
        tried.append(await try_out(keeper, means, own))
        if tried[-1].means is not None:
            break
    return Found(tried=tuple(tried))


def candidates() -> Iterator[tuple[Means | None, tuple[SandboxTier, str]]]:
    if sys.platform == "darwin":
        yield Means(tier="macos", missing=MACOS_LACKS), ("macos", "")
        return
    landlock = landlock_here()
    filtered = filter_for(platform.machine(), "internet") is not None
    bubblewrap = shutil.which("bwrap", path=SYSTEM_PATH)
    if bubblewrap is None:
        yield None, ("namespaces", NO_BUBBLEWRAP)
    else:
        lacks = [] if landlock else ["Landlock, the second fence about files, is not in this kernel"]
        lacks += [] if filtered else [f"system calls are not filtered on {platform.machine()}"]
        yield (
            Means(
                tier="namespaces",
                bubblewrap=bubblewrap,
                landlock=landlock,
                filtered=filtered,
                own_network=True,
                missing=tuple(lacks),
            ),
            ("namespaces", ""),
        )
    if landlock is None or not filtered:
        lacking = "Landlock (Linux 5.19 or newer)" if landlock is None else f"a filter for {platform.machine()}"
        yield None, ("kernel-lite", f"this system has no {lacking}")
        return
    for own_network in (True, False):
        yield (
            Means(
                tier="kernel-lite",
                landlock=landlock,
                filtered=True,
                own_network=own_network,
                missing=LITE_LACKS if landlock.version >= 6 else (*LITE_LACKS, "other processes can be sent signals"),
            ),
            ("kernel-lite", ""),
        )


def how_to_install() -> str:
    """For the package managers there are."""
    for program, command in (
        ("apt-get", "apt-get install bubblewrap"),
        ("dnf", "dnf install bubblewrap"),
        ("pacman", "pacman -S bubblewrap"),
        ("zypper", "zypper install bubblewrap"),
        ("apk", "apk add bubblewrap"),
    ):
        if shutil.which(program, path=SYSTEM_PATH):
            return command
    return "install the package bubblewrap"


async def try_out(keeper: Keeper, means: Means, own: Path) -> Tried:
    """A real command with the real flags, in a workspace of its own; and that it fails where it must."""
    from turnwright.machine.sandbox.confining import Sandbox, inside_python

    with tempfile.TemporaryDirectory(prefix="probe-", dir=own) as made, _listening() as outside:
        base = Path(made)
        reach = _furnished(base)
        sandbox = Sandbox(reach, means, base / "own")
        argv = (inside_python(), "-I", "-S", CANARY, str(base), str(outside.getsockname()[1]))
        try:
            process = await start(
                keeper,
                Command(argv=argv, timeout_s=CANARY_S, merged=False),
                {},
                os.open(reach.workspace, OPEN_FOLDER),
                None,
                None,
                sandbox,
            )
            finished = await process.wait()
        except (MachineError, OSError) as failed:
            return Tried(tier=means.tier, why=str(failed.args[0]) if isinstance(failed, MachineError) else str(failed))
        if finished.exit_code != 0:
            said = (finished.stderr.head or b"it said nothing").decode(errors="replace").strip()
            return Tried(tier=means.tier, why=f"a command did not run in it: {said}")
        # Where what it wrote to is another folder in there, that is as good as refused.
        done = set(json.loads(finished.stdout.head)) - {"write"}
        if (base / "canary").read_text(encoding="utf-8") != "canary":
            done.add("write")
    return _judged(means, done)


def _furnished(base: Path) -> Reach:
    for name in ("workspace", "hidden", "temporary", "cache", "own"):
        (base / name).mkdir()
    for name in ("canary", "hidden/secret"):
        (base / name).write_text("canary", encoding="utf-8")
    return Reach(
        level="workspace-write",
        network="off",
        workspace=str(base / "workspace"),
        home=str(base / "home"),
        temporary=str(base / "temporary"),
        cache=str(base / "cache"),
        hidden=(str(base / "hidden"),),
    )


def _judged(means: Means, done: set[str]) -> Tried:
    broken = [said for name, said in ESSENTIAL.items() if name in done]
    if "work" not in done:
        broken.append("nothing, not even write into the workspace")
    if broken:
        return Tried(tier=means.tier, why=f"a command in it could {', '.join(broken)}")
    lacks = tuple(said for name, said in FILTERED.items() if name in done)
    return Tried(tier=means.tier, means=msgspec.structs.replace(means, missing=(*means.missing, *lacks)))


def _listening() -> socket.socket:
    outside = socket.socket()
    outside.bind(("127.0.0.1", 0))
    outside.listen(1)
    return outside
