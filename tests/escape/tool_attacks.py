"""Attacks by the names that file tools are given: they work in Turnwright's own process, where no sandbox holds them.

Still traps first, each tried by every tool. Then races: a process moves links and folders about while tools open them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from turnwright.machine.keeper import Keeper
from turnwright.machine.local import open_local
from turnwright.machine.sandbox.confining import Door, Sandbox
from turnwright.machine.sandbox.means import means_of
from turnwright.machine.sandbox.reach import Reach
from turnwright.machine.sandbox.scratch import Scratch
from turnwright.schema.tools import Delegation, ToolOutcome, Unfit
from turnwright.tools.registry import Toolbox
from turnwright.tools.standard import standard_tools

SECRET = "tulip-secret-0123456789"
MARK = "written-by-an-attack"

TRAPS = (
    "../outside/canary",
    "folder/../../outside/canary",
    "./folder/.././../outside/canary",
    "{root}/outside/canary",
    "//{root}/outside/canary",
    "{root}/workspace/../outside/canary",
    "{root}/workspace-sibling/canary",
    "../workspace-sibling/canary",
    "link-to-file",
    "link-to-folder/canary",
    "link-absolute/canary",
    "link-chain/canary",
    "link-to-proc/outside/canary",
    "/proc/self/root{root}/outside/canary",
    "/proc/self/cwd/../outside/canary",
    "/dev/fd/0/../../outside/canary",
    "link-to-fd",
    "..\\outside\\canary",
    "%2e%2e/outside/canary",
    "\uff0e\uff0e/outside/canary",
    "..\u200b/outside/canary",
    ".\u2024/outside/canary",
    "..\u2215outside\u2215canary",
    "..//outside//canary",
    "~/outside/canary",
    "$HOME/outside/canary",
    "file:///{root}/outside/canary",
)
"""Ways to a file outside. Some are none on this system; then they must not become one here."""

THROUGH_LINKS = ("hooks/pre-commit", "settings/config.yaml", "git-config", "servers", "workflows/ci.yml", "rc")
"""Names in the workspace that lead to files which other programs obey: a yes to the one is no yes to the other."""


@dataclass
class Tally:
    attempts: int = 0
    got_through: int = 0
    successes: list[str] = field(default_factory=list)


class _Call:
    turn_id, step_id, call_id = "t1", "t1#0", "call_1"

    def output(self, text: str, stream: Literal["stdout", "stderr"] = "stdout") -> None: ...

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        return None

    async def delegate(self, wanted: Delegation) -> ToolOutcome:
        raise AssertionError("nobody is sent here")


@dataclass
class Place:
    root: Path
    box: Toolbox
    before: dict[str, bytes]

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    async def use(self, tool: str, **arguments: Any) -> ToolOutcome:
        checked = self.box.check(tool, msgspec.json.encode(arguments).decode())
        if isinstance(checked, Unfit):
            return ToolOutcome(output=checked.problem, outcome="failed")
        return await self.box.run(tool, checked.arguments, _Call())

    def harmed(self) -> list[str]:
        now = outside(self.root)
        return [name for name in {**now, **self.before} if now.get(name) != self.before.get(name)]


def outside(root: Path) -> dict[str, bytes]:
    """Everything in the arena that no tool may change, and the parts of the workspace that others obey."""
    kept = {}
    for top in ("outside", "workspace-sibling", "workspace/.git", "workspace/.turnwright", "workspace/.github"):
        for path in sorted((root / top).rglob("*")):
            kept[str(path.relative_to(root))] = path.read_bytes() if path.is_file() else b"folder"
    for name in (".mcp.json", ".bashrc"):
        path = root / "workspace" / name
        kept[name] = path.read_bytes() if path.exists() else b""
    return kept


Tier = Literal["namespaces", "kernel-lite"]


@asynccontextmanager
async def place(root: Path, tier: Tier | None = None) -> AsyncIterator[Place]:
    """With a tier, what tools start (ripgrep) is confined by it, as it is in a session."""
    workspace = root / "workspace"
    for folder in ("workspace/folder", "workspace/.git/hooks", "workspace/.turnwright", "workspace/.github/workflows"):
        (root / folder).mkdir(parents=True)
    for folder in ("outside/folder", "workspace-sibling"):
        (root / folder).mkdir(parents=True)
    for name in ("outside/canary", "outside/folder/canary", "workspace-sibling/canary"):
        (root / name).write_text(f"{SECRET}\n")
    for name in (".git/config", ".git/hooks/pre-commit", ".turnwright/config.yaml", ".mcp.json", ".bashrc"):
        (workspace / name).write_text("obeyed\n")
    (workspace / ".github" / "workflows" / "ci.yml").write_text("obeyed\n")
    links = {
        "link-to-file": "../outside/canary",
        "link-to-folder": "../outside",
        "link-absolute": str(root / "outside"),
        "link-chain": "link-between",
        "link-between": "folder/../../outside",
        "link-to-proc": f"/proc/self/root{root}",
        "link-to-fd": "/dev/fd/0",
        "hooks": ".git/hooks",
        "settings": ".turnwright",
        "git-config": ".git/config",
        "servers": ".mcp.json",
        "workflows": ".github/workflows",
        "rc": ".bashrc",
    }
    for name, target in links.items():
        (workspace / name).symlink_to(target)
    keeper = Keeper()
    env = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
    sandbox = await confined(root, tier, keeper) if tier else None
    machine = open_local(workspace, keeper=keeper, env=env, spool=root / "spool", sandbox=sandbox)
    box = Toolbox(standard_tools(), machine=machine)
    try:
        yield Place(root, box, outside(root))
    finally:
        await box.close()
        await machine.close()
        await keeper.close()


async def confined(root: Path, tier: Tier, keeper: Keeper, door: Door | None = None) -> Sandbox:
    """For commands in `root/workspace`; with a door their network is what that lets pass."""
    for folder in ("own", "cache", "home"):
        (root / folder).mkdir()
    scratch = Scratch(root / "own" / "tmp")
    reach = Reach(
        level="workspace-write",
        network="hosts" if door else "off",
        workspace=str(root / "workspace"),
        home=str(root / "home"),
        temporary=str(scratch.path),
        cache=str(root / "cache"),
        visible=(str(root / "spool"),),
    )
    means = (await means_of(tier, keeper, root / "own")).best
    if means is None:
        raise Unavailable(f"There is no tier {tier} here.")
    return Sandbox(reach, means, root / "own", door, scratch)


class Unavailable(Exception):
    """This computer cannot confine commands that way."""


async def still_traps(root: Path) -> Tally:
    tally = Tally()
    async with place(root) as here:
        for trap in TRAPS:
            path = trap.format(root=root)
            for tool, arguments in _uses(path):
                await _try(here, tally, f"{tool} {trap}", tool, arguments)
            folder = path.rpartition("/")[0] or path
            for tool, arguments in _searches(folder):
                await _try(here, tally, f"{tool} in {folder}", tool, arguments)
        for path in THROUGH_LINKS:
            for tool, arguments in _uses(path):
                if tool != "read":
                    await here.use("read", path=path)
                    await _try(here, tally, f"{tool} {path}", tool, arguments)
    return tally


async def _try(here: Place, tally: Tally, said: str, tool: str, arguments: dict[str, Any]) -> None:
    tally.attempts += 1
    outcome = await here.use(tool, **arguments)
    if SECRET in outcome.output:
        tally.successes.append(f"{said}: read")
    if harmed := here.harmed():
        tally.successes.append(f"{said}: changed {', '.join(harmed)}")
        for name in harmed:
            _put_back(here, name)


def _put_back(here: Place, name: str) -> None:
    path = here.root / ("workspace" if name.startswith((".mcp", ".bash")) else "") / name
    if name in here.before:
        path.write_bytes(here.before[name])
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _uses(path: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("read", {"path": path}),
        ("write", {"path": path, "content": MARK}),
        ("edit", {"path": path, "old": "tulip", "new": MARK}),
        ("edit", {"path": path, "old": "obeyed", "new": MARK}),
        ("patch", {"text": f"*** Begin Patch\n*** Update File: {path}\n@@\n-obeyed\n+{MARK}\n*** End Patch\n"}),
        ("patch", {"text": f"*** Begin Patch\n*** Add File: {path}\n+{MARK}\n*** End Patch\n"}),
        ("patch", {"text": f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch\n"}),
        ("patch", {"text": f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-tulip\n+{MARK}\n"}),
        ("write", {"path": f"{path}-new/deep", "content": MARK}),
    ]


def _searches(folder: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("ls", {"path": folder}),
        ("glob", {"pattern": "**/*", "path": folder}),
        ("grep", {"pattern": "tulip", "path": folder}),
        ("grep", {"pattern": "tulip", "path": f"{folder}/canary"}),
    ]


SWAPPER = """
import ctypes, os, sys
os.chdir(sys.argv[1])
libc = ctypes.CDLL(None)
print("ready", flush=True)
while True:
    for target in ("inside", "../outside"):
        os.symlink(target, "next"); os.replace("next", "link")             # an ancestor that is a link
    os.symlink("../outside/canary", "next"); os.replace("next", "file")    # the file itself
    open("next", "w").write("inside"); os.replace("next", "file")
    libc.renameat2(-100, b"real", -100, b"aside", 2)                       # a real folder exchanged with a link
"""


async def races(root: Path, rounds: int, searches: int, tier: Tier | None = None) -> Tally:
    """`rounds` of the tools that open by themselves, `searches` of those that start ripgrep."""
    tally = Tally()
    async with place(root, tier) as here:
        for folder in ("inside", "real"):
            (here.workspace / folder).mkdir()
            (here.workspace / folder / "canary").write_text("inside")
        (here.workspace / "aside").symlink_to("../outside")
        (here.workspace / "link").symlink_to("inside")
        (here.workspace / "file").write_text("inside")
        swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, str(here.workspace)], stdout=subprocess.PIPE)
        assert swapper.stdout is not None
        swapper.stdout.readline()
        try:
            for number in range(rounds):
                for path in ("link/canary", "file", "real/canary"):
                    tool = ("read", "write", "edit", "ls")[number % 4]
                    await _race(here, tally, tool, path)
            for _ in range(searches):
                for path in ("link", "file", "real", "."):
                    await _race(here, tally, "grep", path)
                await _race(here, tally, "glob", "real")
        finally:
            alive = swapper.poll() is None
            swapper.kill()
            swapper.wait()
            swapper.stdout.close()
        assert alive, "the swapper died"
        if harmed := here.harmed():
            tally.successes.append(f"changed {', '.join(harmed)}")
    return tally


async def _race(here: Place, tally: Tally, tool: str, path: str) -> None:
    arguments = {
        "read": {"path": path},
        "write": {"path": f"{path}-{MARK}", "content": MARK},
        "edit": {"path": path, "old": "inside", "new": "inside"},
        "ls": {"path": path.rpartition("/")[0] or path},
        "grep": {"pattern": "tulip|inside", "path": path},
        "glob": {"pattern": "*", "path": path},
    }[tool]
    tally.attempts += 1
    outcome = await here.use(tool, **arguments)
    tally.got_through += outcome.outcome == "ok"
    if SECRET in outcome.output:
        tally.successes.append(f"{tool} {path}: read")
    if tool == "glob" and "real/folder" in outcome.output:
        tally.successes.append(f"{tool} {path}: listed")


class Row(NamedTuple):
    name: str
    tally: Tally | None
    """None where this computer cannot do it."""
    took_s: float
    must_hold: bool


def rows(root: Path, rounds: int, searches: int) -> Iterator[Row]:
    """Searches without a sandbox show that the race can be won; in one, nothing may come of it."""

    def row(name: str, work: Callable[[Path], Coroutine[None, None, Tally]], *, must_hold: bool = True) -> Row:
        folder = root / name.replace(" ", "-")
        folder.mkdir()
        began = time.monotonic()
        try:
            return Row(name, asyncio.run(work(folder)), time.monotonic() - began, must_hold)
        except Unavailable:
            return Row(name, None, 0.0, must_hold)

    yield row("names", still_traps)
    yield row("races to open", lambda folder: races(folder, rounds, 0))
    yield row("races to search, unconfined", lambda folder: races(folder, 0, searches), must_hold=False)
    yield row("races to search, kernel-lite", lambda folder: races(folder, 0, searches, "kernel-lite"))
    yield row("races to search, namespaces", lambda folder: races(folder, 0, searches, "namespaces"))
