"""What changed in a workspace since a point of a conversation, or in one step of it (X7)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from turnwright.app.clock import SystemClock
from turnwright.app.continuing import opening_of
from turnwright.app.doings import doings, step_at
from turnwright.app.reading import facts_of, named_conversation, open_for_reading
from turnwright.app.workshop import Workshop
from turnwright.config.load import Loaded
from turnwright.machine.versions.objects import Objects
from turnwright.machine.versions.trees import Leaf, changes, shown
from turnwright.schema.errors import InputError
from turnwright.schema.facts import Recorded
from turnwright.schema.ids import ConversationId, Seq
from turnwright.views.cut import consistent_cut
from turnwright.views.file_changes import FileChange, Side

SHOWN_BYTES_MAX = 1024 * 1024
"""Of one file; comparing more line by line would take seconds."""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    conversation: ConversationId
    workspace: str
    what: str
    """Between which times, in words."""
    files: tuple[FileChange, ...] = ()


async def changed(loaded: Loaded, name: str, seq: Seq | None, *, step: bool, workspace: Path | None) -> Changed:
    """From the point to the workspace as it is now; `step`: what the step did in which the point lies."""
    async with open_for_reading(loaded) as journal:
        conversation = await named_conversation(journal, name)
        facts = await facts_of(journal, conversation)
    if seq is not None and seq > facts[-1].seq:
        raise InputError(f"{conversation} has no fact {seq}.", remedy=f"Its last one is {facts[-1].seq}.")
    where = workspace or Path(opening_of(facts).workspace)
    return await asyncio.to_thread(_between, loaded, where, conversation, facts, seq, step)


def _between(
    loaded: Loaded, where: Path, conversation: ConversationId, facts: Sequence[Recorded], seq: Seq | None, step: bool
) -> Changed:
    shop = Workshop(where, loaded.folders.data, loaded.settings.versions, SystemClock().wall_ms)
    try:
        if step:
            what, before, after = _of_step(conversation, facts, facts[-1].seq if seq is None else seq)
        else:
            what, before, after = _since(facts, 0 if seq is None else consistent_cut(facts, seq))
        files: tuple[FileChange, ...] = ()
        if before:
            now = bytes.fromhex(after) if after else shop.save()
            found = changes(bytes.fromhex(before), now, shop.objects.folder)
            files = tuple(
                FileChange(
                    path=shown(each.path),
                    before=_side(each.before, shop.objects),
                    after=_side(each.after, shop.objects),
                )
                for each in found
            )
        return Changed(conversation=conversation, workspace=str(where), what=what, files=files)
    finally:
        shop.close()


def _of_step(conversation: ConversationId, facts: Sequence[Recorded], seq: Seq) -> tuple[str, str, str | None]:
    step_id = step_at(facts, seq)
    if step_id is None:
        raise InputError(f"{conversation}:{seq} lies before its first step.", remedy="Leave --step out, or give more.")
    for doing in doings(facts):
        if doing.step_id == step_id:
            return f"in step {step_id}", doing.before, doing.after
    return f"in step {step_id}, which was not one that may change files", "", None


def _since(facts: Sequence[Recorded], at: Seq) -> tuple[str, str, str | None]:
    later = [doing for doing in doings(facts) if doing.began > at]
    if not later:
        return f"since {at}, after which no step that may change files was saved", "", None
    return f"since {at}", later[0].before, None


def _side(leaf: Leaf | None, objects: Objects) -> Side | None:
    if leaf is None:
        return None
    text: str | None = None
    if leaf.kind != "folder" and leaf.kept and leaf.size <= SHOWN_BYTES_MAX:
        content = b"".join(objects.content(leaf))
        if b"\0" not in content:
            try:
                text = content.decode()
            except UnicodeDecodeError:
                text = None
    return Side(kind=leaf.kind, mode=leaf.mode if leaf.kind != "link" else 0, size=leaf.size, text=text)
