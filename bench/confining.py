"""`python -m bench.confining`: what a command costs in a sandbox, against the same command without, interleaved."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from turnwright.machine.keeper import Keeper
from turnwright.machine.local import LocalMachine, open_local
from turnwright.machine.port import Command, run
from turnwright.machine.sandbox.confining import Sandbox
from turnwright.machine.sandbox.means import Means, candidates, try_out
from turnwright.machine.sandbox.reach import Reach

REPEATS = 40
OVER_PLAIN_MS_MAX = 25.0
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


async def main() -> int:
    keeper = Keeper()
    with tempfile.TemporaryDirectory(prefix="bench-") as root:
        machines = {"plain": await _machine(Path(root), "plain", keeper, None)}
        for means, (tier, why) in candidates():
            tried = await try_out(keeper, means, Path(root)) if means is not None else None
            if tried is None or tried.means is None:
                print(f"{tier}: not here ({tried.why if tried else why})")
            elif tier not in machines:
                machines[tier] = await _machine(Path(root), tier, keeper, tried.means)
        spent: dict[str, list[float]] = {name: [] for name in machines}
        for _ in range(REPEATS):
            for name, machine in machines.items():
                began = time.perf_counter()
                await run(machine, Command(argv=("true",)))
                spent[name].append((time.perf_counter() - began) * 1e3)
        for machine in machines.values():
            await machine.close()
    await keeper.close()
    plain = min(spent["plain"])
    heads = f"{'':<12} {'least':>8} {'median':>8} {'over plain':>11}"
    print(f"{heads}   at most {OVER_PLAIN_MS_MAX:g} ms; load {os.getloadavg()[0]:.1f}")
    for name, each in spent.items():
        print(f"{name:<12} {min(each):>8.1f} {median(each):>8.1f} {min(each) - plain:>11.1f}")
    return int(any(min(each) - plain > OVER_PLAIN_MS_MAX for each in spent.values()))


async def _machine(root: Path, name: str, keeper: Keeper, means: Means | None) -> LocalMachine:
    base = root / name
    for part in ("workspace", "home", "temporary", "cache"):
        (base / part).mkdir(parents=True)
    reach = Reach(
        level="workspace-write",
        network="off",
        workspace=str(base / "workspace"),
        home=str(base / "home"),
        temporary=str(base / "temporary"),
        cache=str(base / "cache"),
    )
    sandbox = Sandbox(reach, means, base / "own") if means is not None else None
    return open_local(base / "workspace", keeper=keeper, env=ENV, spool=base / "spool", sandbox=sandbox)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
