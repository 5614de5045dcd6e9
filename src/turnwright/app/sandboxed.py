"""One command where a session's commands run, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from turnwright.app.confining import SPOOL_FOLDER, sandbox_for
from turnwright.app.egress import way_out
from turnwright.app.engine import make_private
from turnwright.config.environment import process_environment
from turnwright.config.load import Loaded
from turnwright.config.tool_environment import tool_environment
from turnwright.machine.keeper import Keeper
from turnwright.machine.local import open_local
from turnwright.machine.port import Command, Keep, OnOutput
from turnwright.schema.errors import InputError
from turnwright.schema.sandbox import SandboxTier

NOTHING_KEPT = Keep(head_bytes=0, tail_bytes=0)


async def run_sandboxed(
    loaded: Loaded,
    workspace: Path,
    argv: Sequence[str],
    on_output: OnOutput,
    stopping: Callable[[Callable[[], None]], AbstractContextManager[None]],
    tier: SandboxTier | None = None,
) -> int:
    """Its exit code. `stopping` calls what it is given when the user wants an end."""
    make_private(loaded.folders.data)
    env = tool_environment(process_environment())
    keeper = Keeper()
    door = way_out(loaded.settings.machine)
    try:
        sandbox = await sandbox_for(loaded, workspace, env.get("HOME", "/"), keeper, door=door, tier=tier)
        machine = open_local(
            workspace, keeper=keeper, env=env, spool=loaded.folders.data / SPOOL_FOLDER, sandbox=sandbox
        )
        try:
            process = await machine.spawn(Command(argv=tuple(argv), merged=False, keep=NOTHING_KEPT), on_output)
            stops: list[asyncio.Task[object]] = []
            with stopping(lambda: stops.append(asyncio.ensure_future(process.stop()))):
                return (await process.wait()).exit_code
        except OSError as failed:
            raise InputError(
                f"{failed.filename} could not be started: {failed.strerror}.", remedy="Check the command's name."
            ) from failed
        finally:
            await machine.close()
    finally:
        await keeper.close()
        if door is not None:
            await door.close()
