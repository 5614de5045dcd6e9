"""What is kept on this disk (J5): the journal, run folders, versions of workspaces, output of commands."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from turnwright.app.clock import SystemClock
from turnwright.app.confining import SPOOL_FOLDER
from turnwright.app.reading import named_conversation
from turnwright.app.versions import FOLDER as VERSIONS_FOLDER
from turnwright.config.load import Loaded
from turnwright.journal.port import Journal
from turnwright.journal.stored import Pruned, Stored
from turnwright.schema.ids import CONVERSATION_ID, ConversationId
from turnwright.views.fold import folded
from turnwright.views.sessions import Session, fold_session

ALL = 1_000_000
DAY_MS = 86_400_000


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on disk, folder by folder."""

    journal: Stored
    runs: int
    """How many run folders there are."""
    runs_bytes: int
    runs_of: dict[ConversationId, int]
    versions_bytes: int
    spool_bytes: int
    data: str

    @property
    def total_bytes(self) -> int:
        return self.journal.total_bytes + self.runs_bytes + self.versions_bytes + self.spool_bytes


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """What a pruning took away, or would."""

    journal: Pruned
    runs: int = 0
    runs_bytes: int = 0


async def kept_in(loaded: Loaded, journal: Journal) -> Kept:
    data = loaded.folders.data
    stored, runs = await journal.stored(), await asyncio.to_thread(_run_folders, loaded.folders.runs)
    sizes = {folder: await asyncio.to_thread(_size_of, folder) for folders in runs.values() for folder in folders}
    return Kept(
        journal=stored,
        runs=len(sizes),
        runs_bytes=sum(sizes.values()),
        runs_of={name: sum(sizes[folder] for folder in folders) for name, folders in runs.items()},
        versions_bytes=await asyncio.to_thread(_size_of, data / VERSIONS_FOLDER),
        spool_bytes=await asyncio.to_thread(_size_of, data / SPOOL_FOLDER),
        data=str(data),
    )


async def chosen(
    journal: Journal, names: Sequence[str], *, older_days: float | None, archived: bool
) -> list[ConversationId]:
    """Those that are named, or all that every condition fits. The subagents of a conversation go with it."""
    sessions = [
        folded(fold_session, Session(), await journal.since(each.id)) for each in await journal.conversations(ALL)
    ]
    if names:
        wanted = {await named_conversation(journal, name) for name in names}
    else:
        before = SystemClock().wall_ms() - (older_days or 0) * DAY_MS
        wanted = {
            each.conversation_id
            for each in sessions
            if each.last_at <= before and (each.archived or not archived) and not each.depth
        }
    while below := {
        each.conversation_id
        for each in sessions
        if each.depth and each.parent in wanted and each.conversation_id not in wanted
    }:
        wanted |= below
    return sorted(wanted)


async def remove(
    loaded: Loaded, journal: Journal, conversations: Sequence[ConversationId], *, captures: bool, dry_run: bool
) -> Removed:
    """Conversations with their run folders, which are made from them; or only the captured bytes of their attempts."""
    pruned = await journal.prune(conversations, captures=captures, dry_run=dry_run)
    runs = await asyncio.to_thread(_run_folders, loaded.folders.runs)
    folders = [folder for name in pruned.conversations for folder in runs.get(name, ())]
    runs_bytes = sum([await asyncio.to_thread(_size_of, folder) for folder in folders])
    if not dry_run:
        for folder in folders:
            await asyncio.to_thread(shutil.rmtree, folder)
    return Removed(journal=pruned, runs=len(folders), runs_bytes=runs_bytes)


def _run_folders(runs: Path) -> dict[ConversationId, list[Path]]:
    """`<time>_<conversation>`: whatever else lies there is nobody's to delete."""
    found: dict[ConversationId, list[Path]] = {}
    for folder in sorted(runs.glob("*_c_*")) if runs.is_dir() else []:
        name = folder.name.partition("_")[2]
        if CONVERSATION_ID.fullmatch(name) and folder.is_dir() and not folder.is_symlink():
            found.setdefault(name, []).append(folder)
    return found


def _size_of(folder: Path) -> int:
    """What its files take; what vanishes meanwhile takes nothing."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 - a path object each would cost more
            except FileNotFoundError:
                continue
    return total
