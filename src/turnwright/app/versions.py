"""The versions of a workspace: saved while the model thinks, taken back when the user asks for it (X7)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from turnwright.kernel.ports import Saved, Unsaved
from turnwright.machine.versions.objects import Objects
from turnwright.machine.versions.pending import PendingFile
from turnwright.machine.versions.saving import Rules, Scanner
from turnwright.machine.versions.saving import Saved as Tree
from turnwright.schema.errors import InputError, MachineError
from turnwright.schema.settings import VersionSettings

FOLDER = "versions"
DATABASE = "versions.db"


def open_objects(data: Path) -> Objects:
    return Objects(data / FOLDER / DATABASE)


def rules_of(settings: VersionSettings) -> Rules:
    return Rules(ignore=settings.ignore, file_bytes_max=settings.file_bytes_max)


def check_put_back(workspace: Path, data: Path) -> None:
    """Nothing works in a folder that is neither as it was nor as it shall be."""
    if PendingFile(data / FOLDER, str(workspace)).exists():
        raise InputError(
            f"An undo in {workspace} is not finished.",
            remedy=f"If it does not run any more, finish it: turnwright undo --cwd {workspace}",
        )


class WorkspaceVersions:
    """Satisfies `kernel.ports.Versions` for a workspace on this computer. Nothing is opened before it is used."""

    def __init__(self, workspace: Path, data: Path, settings: VersionSettings, wall_ms: Callable[[], int]) -> None:
        self._workspace = workspace
        self._data = data
        self._settings = settings
        self._wall_ms = wall_ms
        self._scanner: Scanner | None = None
        self._objects: Objects | None = None
        self._work: asyncio.Task[Tree] | None = None
        self._late: asyncio.Task[Tree] | None = None
        """A save that nobody waits for any more: the next begins behind it."""

    def begin(self) -> None:
        if self._work is not None:
            self._late = self._work
        self._work = asyncio.create_task(self._save_after(self._late))

    async def settled(self) -> Saved | Unsaved | None:
        work, self._work = self._work, None
        if work is None:
            return None
        try:
            saved = await asyncio.wait_for(asyncio.shield(work), self._settings.patience_s)
        except TimeoutError:
            self._late = work
            work.add_done_callback(_let_go)
            return Unsaved(f"saving it takes longer than {self._settings.patience_s:g} s (versions.patience_s)")
        except asyncio.CancelledError:
            self._late = work
            work.add_done_callback(_let_go)
            raise
        except (OSError, MachineError) as failed:
            return Unsaved(str(failed))
        return Saved(saved.tree.hex(), saved.files)

    async def close(self) -> None:
        if self._scanner is not None:
            self._scanner.give_up()
        for work in (self._late, self._work):
            if work is not None:
                await asyncio.wait([work])
                _let_go(work)
        if self._objects is not None:
            await asyncio.to_thread(self._objects.close)

    async def _save_after(self, late: asyncio.Task[Tree] | None) -> Tree:
        if late is not None:
            await asyncio.wait([late])
        return await asyncio.to_thread(self._save)

    def _save(self) -> Tree:
        if self._objects is None or self._scanner is None:
            self._objects = open_objects(self._data)
            self._scanner = Scanner(str(self._workspace), self._objects, rules_of(self._settings))
        saved = self._scanner.save(self._wall_ms() * 1_000_000)
        if saved.read:
            self._objects.prune(self._settings.bytes_max)
        return saved


def _let_go(work: asyncio.Task[Tree]) -> None:
    """Its failure was waited for by nobody; the next save will say the same."""
    if work.done() and not work.cancelled():
        work.exception()
