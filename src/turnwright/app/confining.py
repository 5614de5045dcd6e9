"""Where commands of a session run: the level that was asked for, by the best means there are."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from turnwright.config.load import Loaded
from turnwright.machine.keeper import Keeper
from turnwright.machine.sandbox.confining import Door, Sandbox
from turnwright.machine.sandbox.means import Found, Means, are_known, means_here, means_of
from turnwright.machine.sandbox.reach import Reach
from turnwright.machine.sandbox.scratch import Scratch
from turnwright.schema.errors import InputError, MachineError, SandboxError
from turnwright.schema.sandbox import UNCONFINED, Confinement, SandboxLevel, SandboxTier
from turnwright.schema.settings import MachineSettings

SANDBOX_FOLDER = "sandbox"
SPOOL_FOLDER = "spool"

OFF = "machine.sandbox: off (--sandbox off) runs commands with your own rights."


@contextlib.asynccontextmanager
async def looking_for_means(loaded: Loaded, keeper: Keeper) -> AsyncIterator[asyncio.Task[Found] | None]:
    """It takes as long as three processes take to start, so it goes on beside whatever else a start is made of. None
    where no command will be confined."""
    settings = loaded.settings.machine
    if settings.sandbox == "off" or settings.ssh:
        yield None
        return
    if not are_known():
        with contextlib.suppress(MachineError):  # whoever runs a command is told
            keeper.begin()
    looking = asyncio.create_task(means_here(keeper, loaded.folders.state / SANDBOX_FOLDER))
    try:
        yield looking
    finally:
        looking.cancel()
        await asyncio.wait([looking])
        if not looking.cancelled():
            looking.exception()  # whoever needed it was told


async def sandbox_for(
    loaded: Loaded,
    workspace: Path,
    home: str,
    keeper: Keeper,
    *,
    may_write: bool = True,
    door: Door | None = None,
    tier: SandboxTier | None = None,
    looking: asyncio.Task[Found] | None = None,
) -> Sandbox | None:
    """None where it was switched off. SandboxError where what was asked for is not to be had: never less, unsaid.
    `tier`: this one or none, in place of the best there is. `looking`: whether that is being found out already."""
    settings = loaded.settings.machine
    level = level_of(settings, may_write=may_write)
    if level == "off" or tier == "none":
        if settings.require_sandbox:
            raise SandboxError(
                "A sandbox is required, and machine.sandbox is off.", remedy="Set one of the two to what you mean."
            )
        return None
    own = loaded.folders.state / SANDBOX_FOLDER
    if tier:
        found = await means_of(tier, keeper, own)
    else:
        found = await (asyncio.shield(looking) if looking else means_here(keeper, own))
    means = chosen(found, settings)
    return _sandbox(loaded, level, workspace, home, means, own, door)


async def tried_here() -> Found:
    """What commands would get here. Leaves nothing behind."""
    keeper = Keeper()
    try:
        with tempfile.TemporaryDirectory(prefix="turnwright-") as own:
            return await means_here(keeper, Path(own))
    finally:
        await keeper.close()


async def confinement_of(loaded: Loaded) -> Confinement:
    """What would hold the commands of a session here, without one."""
    settings = loaded.settings.machine
    level = level_of(settings, may_write=True)
    if level == "off":
        return UNCONFINED
    return chosen(await tried_here(), settings).confinement(level, settings.network)


def level_of(settings: MachineSettings, *, may_write: bool) -> SandboxLevel:
    """Whoever only plans changes nothing, by command either."""
    return settings.sandbox if may_write or settings.sandbox == "off" else "read-only"


def chosen(found: Found, settings: MachineSettings) -> Means:
    best = found.best
    if best is None:
        why = "; ".join(f"{one.tier}: {one.why}" for one in found.tried)
        raise SandboxError(f"Commands cannot be confined here ({why}).", remedy=OFF)
    lacks = (*(f"{one.tier}: {one.why}" for one in found.tried if one.means is None), *best.missing)
    if settings.require_sandbox and lacks:
        raise SandboxError(
            f"A whole sandbox is required, and there is only {best.tier} here ({'; '.join(lacks)}).",
            remedy="turnwright doctor says how to get one.",
        )
    if settings.network == "hosts" and not best.own_network:
        raise SandboxError(
            f"The network cannot be limited to hosts in the tier {best.tier} here.",
            remedy="Set machine.network to off or open.",
        )
    return best


def _sandbox(
    loaded: Loaded, level: SandboxLevel, workspace: Path, home: str, means: Means, own: Path, door: Door | None
) -> Sandbox:
    settings, folders = loaded.settings.machine, loaded.folders
    real = workspace.resolve()
    cache = own / "cache" / hashlib.sha256(os.fsencode(real)).hexdigest()[:24]
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = Scratch(own / "tmp")
    reach = Reach(
        level=level,
        network=settings.network,
        workspace=str(real),
        home=os.path.realpath(home),
        temporary=str(scratch.path),
        cache=str(cache.resolve()),
        writable=tuple(_writable(path) for path in settings.write),
        hidden=tuple(str(path.resolve()) for path in (folders.data, folders.state)),
        visible=(str((folders.data / SPOOL_FOLDER).resolve()),),
        kept=(str(folders.config.resolve()),),
    )
    return Sandbox(reach, means, own, door, scratch)


def _writable(given: str) -> str:
    path = Path(given).expanduser()
    if not path.is_dir():
        raise InputError(
            f"The folder {given} in which commands may write does not exist.", remedy="Make it, or name another."
        )
    return str(path.resolve())
