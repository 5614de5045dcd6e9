"""Where a session works, on this computer or on another, and what is found there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from turnwright.app.confining import SPOOL_FOLDER, sandbox_for
from turnwright.app.egress import way_out
from turnwright.app.far_machine import Far, opened_far
from turnwright.app.instructions import Instructions, NestedInstructions, instructions_for
from turnwright.app.modes import Modes
from turnwright.app.skills import Skills, skills_for
from turnwright.app.versions import check_put_back
from turnwright.config.folders import Folders
from turnwright.config.load import Loaded
from turnwright.config.tool_environment import tool_environment
from turnwright.machine.files import Forbidden
from turnwright.machine.keeper import Keeper
from turnwright.machine.local import open_local
from turnwright.machine.port import Machine
from turnwright.machine.sandbox.means import Found
from turnwright.schema.errors import InputError, SandboxError
from turnwright.schema.facts import Note
from turnwright.schema.masking import Masker


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    machine: Machine
    instructions: Instructions
    skills: Skills
    nested: NestedInstructions | None = None
    """None where the files of the workspace are not here to be looked at beforehand."""
    notices: tuple[Note, ...] = ()


async def ground_here(
    stack: AsyncExitStack,
    loaded: Loaded,
    environ: Mapping[str, str],
    keeper: Keeper,
    workspace: Path,
    modes: Modes,
    masker: Masker,
    forbidden: Forbidden,
    looking: asyncio.Task[Found] | None,
) -> Ground:
    """What is `looking` for a sandbox has the time until the files were read."""
    settings, folders, trust = loaded.settings, loaded.folders, loaded.trust.at(workspace)
    room = settings.prompts.instructions_max_bytes
    instructions = instructions_for(workspace, folders.config, trust, max_bytes=room, forbidden=forbidden)
    skills = skills_for(workspace, folders.config, trust, forbidden=forbidden)
    env = tool_environment(environ)
    door = way_out(settings.machine)
    if door is not None:
        stack.push_async_callback(door.close)
    machine = open_local(
        workspace,
        keeper=keeper,
        env=env,
        spool=folders.data / SPOOL_FOLDER,
        forbidden=forbidden,
        masker=masker,
        sandbox=await sandbox_for(
            loaded,
            workspace,
            env.get("HOME", "/"),
            keeper,
            may_write=modes.may_write,
            door=door,
            looking=looking,
        ),
    )
    stack.push_async_callback(machine.close)
    return Ground(
        machine=machine,
        instructions=instructions,
        skills=skills,
        nested=NestedInstructions(workspace, trust, max_bytes=room, forbidden=forbidden),
    )


async def ground_far(stack: AsyncExitStack, loaded: Loaded, far: Far, workspace: Path, forbidden: Forbidden) -> Ground:
    """What the project over there says is for the model to read, with its tools."""
    settings, folders, trust = loaded.settings, loaded.folders, loaded.trust.at(workspace)
    if settings.machine.require_sandbox:
        raise SandboxError(
            f"A sandbox is required, and commands on {far.host} have the rights of the user there.",
            remedy="Work on this computer (--ssh local), or require none.",
        )
    machine = await opened_far(far)
    stack.push_async_callback(machine.close)
    room = settings.prompts.instructions_max_bytes
    return Ground(
        machine=machine,
        instructions=instructions_for(None, folders.config, trust, max_bytes=room, forbidden=forbidden),
        skills=skills_for(None, folders.config, trust, forbidden=forbidden),
        notices=(
            Note(
                code="far-workspace",
                text=f"works in {machine.workspace} on {far.host}: commands have the rights of the user there, "
                "and what they change cannot be undone from here",
            ),
        ),
    )


def check_workspace(workspace: Path, folders: Folders, modes: Modes) -> None:
    if not workspace.is_dir():
        raise InputError(f"The workspace {workspace} does not exist.", remedy="Name an existing folder with --cwd.")
    check_put_back(workspace, folders.data)
    if folders.data.resolve().is_relative_to(workspace.resolve()):
        raise InputError(
            f"The data folder {folders.data} lies inside the workspace {workspace}.",
            remedy="Tools must not reach the journal: put TURNWRIGHT_HOME (or data_dir) elsewhere.",
        )
    if folders.state.resolve().is_relative_to(workspace.resolve()):
        raise InputError(
            f"The state folder {folders.state} lies inside the workspace {workspace}.",
            remedy="Tools must not reach what you trusted and allowed: put TURNWRIGHT_HOME elsewhere.",
        )
    if modes.may_write and not os.access(workspace, os.W_OK | os.X_OK):
        raise InputError(
            f"The workspace {workspace} is not writable.",
            remedy="Change its permissions, name another with --cwd, or use --mode plan.",
        )
