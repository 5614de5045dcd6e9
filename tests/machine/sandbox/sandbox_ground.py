"""A workspace in a sandbox, with what lies around it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from turnwright.machine.keeper import Keeper
from turnwright.machine.local import LocalMachine, open_local
from turnwright.machine.port import Command, run
from turnwright.machine.sandbox.confining import Sandbox
from turnwright.machine.sandbox.means import Means, candidates, try_out
from turnwright.machine.sandbox.reach import Reach

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


class Ground:
    """A workspace and what lies around it."""

    def __init__(self, root: Path, means: Means, keeper: Keeper) -> None:
        self.root, self.means, self.keeper = root, means, keeper
        self.machines: list[LocalMachine] = []
        for name in ("workspace", "home/.ssh", "home/.cache", "temporary", "cache", "own", "outside"):
            (root / name).mkdir(parents=True)
        (root / "home/.ssh/key").write_text("secret")
        self.workspace = root / "workspace"
        self.reach = Reach(
            level="workspace-write",
            network="off",
            workspace=str(self.workspace),
            home=str(root / "home"),
            temporary=str(root / "temporary"),
            cache=str(root / "cache"),
            hidden=(str(root / "own"),),
        )

    def machine(self, **changed: object) -> LocalMachine:
        sandbox = Sandbox(msgspec.structs.replace(self.reach, **changed), self.means, self.root / "own")
        made = open_local(self.workspace, keeper=self.keeper, env=ENV, spool=self.root / "spool", sandbox=sandbox)
        self.machines.append(made)
        return made

    async def run(self, *argv: str, **changed: object) -> tuple[int, str]:
        finished = await run(self.machine(**changed), Command(argv=argv))
        return finished.exit_code, finished.stdout.head.decode()

    async def shell(self, line: str, **changed: object) -> tuple[int, str]:
        return await self.run("sh", "-c", line, **changed)


async def means_of_tier(tier: str, keeper: Keeper, own: Path) -> Means:
    for means, (name, why) in candidates():
        if name == tier:
            if means is None:
                pytest.skip(f"{tier}: {why}")
            tried = await try_out(keeper, means, own)
            if tried.means is not None:
                return tried.means
            pytest.skip(f"{tier}: {tried.why}")
    pytest.skip(f"no tier {tier} on this system")


async def ground_of(tier: str, root: Path) -> AsyncIterator[Ground]:
    keeper = Keeper()
    made = Ground(root, await means_of_tier(tier, keeper, root), keeper)
    yield made
    for machine in made.machines:
        await machine.close()
    await keeper.close()
