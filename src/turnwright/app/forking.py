"""A new conversation that shares the beginning of another (R3): another model, other settings, another task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from turnwright import __version__
from turnwright.app.clock import SystemClock
from turnwright.app.continuing import opening_of
from turnwright.app.ids import SystemIds
from turnwright.app.reading import facts_of
from turnwright.app.turns import opening
from turnwright.config.load import Loaded
from turnwright.journal.port import Journal
from turnwright.schema.errors import InputError
from turnwright.schema.facts import ConversationOpened, Fact, Note, Recorded
from turnwright.schema.ids import ConversationId, Prefix, Seq
from turnwright.views.cut import consistent_cut, turn_open_at


class Forked(msgspec.Struct, frozen=True, kw_only=True):
    conversation_id: ConversationId
    parent: ConversationId
    asked: Seq
    """The point that was named."""
    at: Seq
    """The last fact that is shared: it may be earlier, where the one that was named lies within a step."""
    workspace: str
    model: str
    in_turn: bool
    """A turn is under way there: it can be carried on, or another task can be given."""


async def fork(
    journal: Journal,
    conversation_id: ConversationId,
    seq: Seq | None,
    *,
    loaded: Loaded,
    model_named: bool,
    assigned: Mapping[str, str],
    workspace: Path | None = None,
    title: str = "",
    child: ConversationId = "",
    note: Note | None = None,
) -> Forked:
    """On record when this returns. Nothing is run. `seq` None is the end; `model_named` takes the model of `loaded`.
    `child` is its id where that was decided before, `note` its first fact after the opening."""
    facts = await facts_of(journal, conversation_id)
    asked = _within(facts, seq)
    at = consistent_cut(facts, asked)
    before = opening_of([each for each in facts if each.seq <= at])
    settings = {**before.settings, **assigned}
    opened = _opened(before, loaded, model_named, workspace)
    opened = msgspec.structs.replace(
        opened, parent=conversation_id, forked_at=at, settings=settings, title=title or before.title
    )
    clock = SystemClock()
    child = child or SystemIds(clock.wall_ms).new("conversation")
    facts_of_its_own: list[Fact] = [opened] if note is None else [opened, note]
    async with await journal.acquire(child, create=True, prefix=Prefix(conversation_id, at)) as lease:
        await journal.append(lease, [(clock.wall_ms(), each) for each in facts_of_its_own])
    return Forked(
        conversation_id=child,
        parent=conversation_id,
        asked=asked,
        at=at,
        workspace=opened.workspace,
        model=opened.model,
        in_turn=turn_open_at(facts, at),
    )


def _within(facts: Sequence[Recorded], seq: Seq | None) -> Seq:
    last = facts[-1].seq
    if seq is None:
        return last
    if seq > last:
        raise InputError(f"{facts[0].conversation_id} has no fact {seq}.", remedy=f"Its last one is {last}.")
    return seq


def _opened(
    before: ConversationOpened, loaded: Loaded, model_named: bool, workspace: Path | None
) -> ConversationOpened:
    where = Path(before.workspace) if workspace is None else workspace
    if model_named:
        return opening(loaded.settings, where)
    return msgspec.structs.replace(before, workspace=str(where), turnwright=__version__, errand=None, call_id=None)
