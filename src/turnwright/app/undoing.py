"""Taking back what steps did to the workspace, and the conversation with it (X7).

Files are put back as they were; the conversation goes on as a fork that ends where the files are now. What is about to
be done is on disk first, so that an undo that is killed is finished by the next one.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from turnwright.app.clock import SystemClock
from turnwright.app.continuing import opening_of
from turnwright.app.forking import fork
from turnwright.app.ids import SystemIds
from turnwright.app.journals import opened_journal
from turnwright.app.reading import PROBE_TITLE, facts_of, named_conversation
from turnwright.app.workshop import Workshop
from turnwright.config.load import Loaded
from turnwright.journal.port import Journal
from turnwright.machine.versions.objects import Move
from turnwright.machine.versions.pending import Pending
from turnwright.machine.versions.trees import shown
from turnwright.machine.versions.undoing import Plan
from turnwright.schema.errors import InputError
from turnwright.schema.facts import ConversationOpened, Note, Recorded
from turnwright.schema.ids import ConversationId, Seq, StepId
from turnwright.schema.messages import RuntimeMessage
from turnwright.views.cut import consistent_cut, turn_open_at

UNDONE = "undone"
"""The first note of a fork that an undo made."""
LOOKED_THROUGH = 200
PATHS_TOLD_MAX = 50

Became: TypeAlias = Literal["restored", "removed", "made", "mode"]


class Put(msgspec.Struct, frozen=True):
    """What became of a path. `made`: a folder that is there again."""

    path: str
    became: Became


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """What an undo or a redo did, or would do."""

    workspace: str
    conversation: ConversationId
    goes_on_as: ConversationId = ""
    """The conversation that belongs to the files as they are now; empty where it is the same as before."""
    back_to: Seq = 0
    """The last fact that still holds; 0 where the conversation stays as it is."""
    steps: tuple[StepId, ...] = ()
    """Taken back, latest first."""
    paths: tuple[Put, ...] = ()
    in_the_way: tuple[str, ...] = ()
    """Changed since by somebody else."""
    not_kept: tuple[str, ...] = ()
    """Too large to have been saved."""
    for_good: tuple[str, ...] = ()
    """Too large to have been saved now: no redo brings them back."""
    done: bool = False
    finished: bool = False
    """It had been interrupted before, and this was the rest of it."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    name: str | None = None
    """A conversation; None is the newest in the workspace."""
    seq: Seq | None = None
    paths: tuple[str, ...] = ()
    """These alone, and the conversation stays."""
    files_only: bool = False
    dry_run: bool = False
    force: bool = False


async def undo(loaded: Loaded, workspace: Path, asked: Asked, *, elsewhere: bool = False) -> Undone:
    """`workspace` counts where no conversation is named, and `elsewhere`: then it stands for the recorded one."""
    async with opened_journal(loaded, label="undo") as journal:
        if asked.name is None or elsewhere:
            where = workspace
        else:
            where = Path(opening_of(await facts_of(journal, await named_conversation(journal, asked.name))).workspace)
        async with _workshop(loaded, journal, where, asked.dry_run) as shop:
            if (left := shop.pending.read()) is not None:
                return await _finished(loaded, journal, shop, left, asked)
            return await _undone(loaded, journal, shop, asked)


async def redo(loaded: Loaded, workspace: Path, asked: Asked) -> Undone:
    """The last undo of this workspace, taken back."""
    async with (
        opened_journal(loaded, label="redo") as journal,
        _workshop(loaded, journal, workspace, asked.dry_run) as shop,
    ):
        if (left := shop.pending.read()) is not None:
            return await _finished(loaded, journal, shop, left, asked)
        move, made = await asyncio.to_thread(shop.redo)
        pending = _pending(shop, made, move, redo=True)
        told = _told(pending, made)
        if asked.dry_run:
            return told
        _check(made, asked, f"turnwright redo --cwd {shop.workspace}")
        return await _carried_out(loaded, journal, shop, pending, told)


def forget(loaded: Loaded, workspace: Path) -> bool:
    """Leave the files as an undo that was interrupted left them. Whether there was one."""
    shop = Workshop(workspace, loaded.folders.data, loaded.settings.versions, SystemClock().wall_ms)
    try:
        with shop.pending.alone():
            there = shop.pending.exists()
            shop.pending.remove()
            return there
    finally:
        shop.close()


@asynccontextmanager
async def _workshop(loaded: Loaded, journal: Journal, workspace: Path, dry_run: bool) -> AsyncIterator[Workshop]:
    """Alone in the workspace: no other undo, and no turn that runs there."""
    shop = Workshop(workspace, loaded.folders.data, loaded.settings.versions, SystemClock().wall_ms)
    try:
        with shop.pending.alone():
            if not dry_run:
                await _check_nothing_runs(journal, workspace)
            yield shop
    finally:
        shop.close()


async def _check_nothing_runs(journal: Journal, workspace: Path) -> None:
    for each in await journal.conversations(LOOKED_THROUGH):
        if each.held_by is not None and each.workspace == str(workspace):
            raise InputError(
                f"A turn of {each.id} is running in {workspace} (process {each.held_by.pid}).",
                remedy=f"Stop it first: turnwright stop {each.id}",
            )


async def _undone(loaded: Loaded, journal: Journal, shop: Workshop, asked: Asked) -> Undone:
    if asked.name is None:
        conversation = await _newest_here(journal, shop)
    else:
        conversation = await named_conversation(journal, asked.name)
    facts = await facts_of(journal, conversation)
    if asked.seq is not None and asked.seq > facts[-1].seq:
        raise InputError(f"{conversation} has no fact {asked.seq}.", remedy=f"Its last one is {facts[-1].seq}.")
    at = None if asked.seq is None else consistent_cut(facts, asked.seq)
    wanted = await asyncio.to_thread(shop.undo, conversation, facts, at, asked.paths)
    stays = asked.files_only or bool(asked.paths)
    child = "" if stays else SystemIds(SystemClock().wall_ms).new("conversation")
    move = Move(left=bytes.fromhex(wanted.left), reached=b"", conversation=conversation, fork=child)
    pending = _pending(shop, wanted.plan, move, back_to=0 if stays else wanted.back_to)
    told = msgspec.structs.replace(_told(pending, wanted.plan), steps=tuple(each.step_id for each in wanted.steps))
    if asked.dry_run:
        return msgspec.structs.replace(told, goes_on_as="")
    _check(wanted.plan, asked, f"turnwright undo {conversation}:{wanted.back_to}")
    if not wanted.plan.to_be and stays:
        return told
    done = await _carried_out(loaded, journal, shop, pending, told)
    if stays:
        await _tell_model(journal, facts, done)
    return done


async def _newest_here(journal: Journal, shop: Workshop) -> ConversationId:
    """Forks in which nothing was said yet stand for the conversation that they come from; but the one of the last undo
    is where the files are."""
    last = shop.objects.last_move(str(shop.workspace))
    for each in await journal.conversations(LOOKED_THROUGH):
        if each.workspace != str(shop.workspace) or each.title.startswith(PROBE_TITLE):
            continue
        facts = await facts_of(journal, each.id)
        opened = opening_of(facts)
        current = last is not None and last.fork == each.id
        if opened.errand is None and (opened.forked_at is None or current or _has_gone_on(facts)):
            return each.id
    raise InputError(
        f"No conversation has worked in {shop.workspace}.",
        remedy="Name one: turnwright undo ID; see turnwright sessions.",
    )


def _has_gone_on(facts: Sequence[Recorded]) -> bool:
    """A fork in which something happened after its opening."""
    last = [each for each in facts if not (isinstance(each.fact, Note) and each.fact.code == UNDONE)]
    return not isinstance(last[-1].fact, ConversationOpened)


def _pending(shop: Workshop, made: Plan, move: Move, *, back_to: Seq = 0, redo: bool = False) -> Pending:
    mark = secrets.token_hex(6)
    if not redo:
        move = msgspec.structs.replace(move, mark=mark)
    return Pending(mark=mark, workspace=str(shop.workspace), plan=made, move=move, back_to=back_to, redo=redo)


def _told(pending: Pending, made: Plan) -> Undone:
    move = pending.move
    return Undone(
        workspace=pending.workspace,
        conversation=move.fork or move.conversation if pending.redo else move.conversation,
        goes_on_as=move.conversation if pending.redo and move.fork else "" if pending.redo else move.fork,
        back_to=pending.back_to,
        paths=tuple(_puts(made)),
        in_the_way=tuple(map(shown, made.in_the_way)),
        not_kept=tuple(map(shown, made.not_kept)),
        for_good=tuple(map(shown, made.for_good)),
    )


def _puts(made: Plan) -> list[Put]:
    found = []
    for path, leaf in sorted(made.to_be.items()):
        was = made.was[path]
        if leaf == was:
            continue  # a closed folder that is opened in between
        became: Became = "restored"
        if leaf is None:
            became = "removed"
        elif was is not None and was.kind == leaf.kind and was.content == leaf.content:
            became = "mode"
        elif leaf.kind == "folder":
            became = "made"
        found.append(Put(shown(path), became))
    return found


def _check(made: Plan, asked: Asked, command: str) -> None:
    if asked.force:
        return
    for paths, why in (
        (made.in_the_way, "changed since by somebody else, and would lose that"),
        (made.not_kept, "too large to have been saved, and cannot be put back"),
        (made.for_good, "too large to be saved (versions.file_bytes_max), and would be gone for good"),
    ):
        if paths:
            said = ", ".join(map(shown, paths[:5])) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
            raise InputError(
                f"Nothing was done: {said} {'was' if len(paths) == 1 else 'were'} {why}.",
                remedy=f"See it all: {command} --dry-run; do the rest all the same: --force.",
            )


async def _carried_out(loaded: Loaded, journal: Journal, shop: Workshop, pending: Pending, told: Undone) -> Undone:
    await asyncio.to_thread(shop.carry_out, pending)
    await _go_on_elsewhere(loaded, journal, pending, told)
    await asyncio.to_thread(shop.remember, pending)
    shop.pending.remove()
    return msgspec.structs.replace(told, done=True)


async def _finished(loaded: Loaded, journal: Journal, shop: Workshop, left: Pending, asked: Asked) -> Undone:
    """What an undo that was killed had still to do; nothing else is done now."""
    in_the_way = await asyncio.to_thread(shop.changed_since, left)
    told = msgspec.structs.replace(_told(left, left.plan), in_the_way=tuple(map(shown, in_the_way)), finished=True)
    if asked.dry_run:
        return told
    _check(msgspec.structs.replace(left.plan, in_the_way=in_the_way), asked, f"turnwright undo --cwd {shop.workspace}")
    return await _carried_out(loaded, journal, shop, left, told)


async def _go_on_elsewhere(loaded: Loaded, journal: Journal, pending: Pending, told: Undone) -> None:
    child = pending.move.fork
    if pending.redo or not child or await _exists(journal, child):
        return
    note = Note(
        code=UNDONE,
        text=f"{len(told.steps)} steps were undone in {pending.workspace}: {_named(told.paths)}",
        data={"conversation": pending.move.conversation, "back_to": pending.back_to, "paths": len(told.paths)},
    )
    await fork(
        journal,
        pending.move.conversation,
        pending.back_to,
        loaded=loaded,
        model_named=False,
        assigned={},
        workspace=Path(pending.workspace),
        child=child,
        note=note,
    )


async def _exists(journal: Journal, conversation: ConversationId) -> bool:
    """Made by the undo that was killed behind it."""
    try:
        return bool(await journal.tail(conversation, 1))
    except InputError:
        return False


async def _tell_model(journal: Journal, facts: Sequence[Recorded], done: Undone) -> None:
    """The conversation stays, and what it shows is no longer so. Within a turn that was cut off nothing can be said."""
    if turn_open_at(facts, facts[-1].seq):
        return
    text = f"The user has put files back as they were before: {_named(done.paths)}. Look before you rely on them."
    note = Note(code="files-undone", text=text, said=RuntimeMessage(code="files-undone", text=text))
    async with await journal.acquire(done.conversation) as lease:
        await journal.append(lease, [(SystemClock().wall_ms(), note)])


def _named(paths: Sequence[Put]) -> str:
    said = ", ".join(f"{each.path} ({each.became})" for each in paths[:PATHS_TOLD_MAX])
    return said + (f" and {len(paths) - PATHS_TOLD_MAX} more" if len(paths) > PATHS_TOLD_MAX else "")
