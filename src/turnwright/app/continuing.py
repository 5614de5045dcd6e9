"""Taking up a conversation in another process: with the model and the workspace that it began with, unless others are
named now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from turnwright.app.reading import facts_of, holder_of, named_conversation, open_for_reading
from turnwright.config.load import Loaded, with_assigned
from turnwright.journal.port import Journal
from turnwright.journal.records import Holder
from turnwright.schema.facts import (
    ContextCompacted,
    ConversationOpened,
    Errand,
    Note,
    Recorded,
    TaskSoFar,
    TurnEnded,
    TurnStarted,
)
from turnwright.schema.ids import ConversationId
from turnwright.schema.settings import ENDPOINT, Provider, answered_by


class Continued(msgspec.Struct, frozen=True, kw_only=True):
    conversation_id: ConversationId
    loaded: Loaded
    workspace: Path
    facts: list[Recorded]
    """From the last compaction on, behind what opened it."""
    held_by: Holder | None
    """The process that runs its turn, where one does."""

    @property
    def opened_at(self) -> int:
        return self.facts[0].at

    @property
    def errand(self) -> Errand | None:
        """Where it is a subagent's: what it was sent with holds for whoever carries it on too."""
        return opening_of(self.facts).errand


async def continued(loaded: Loaded, name: str) -> Continued:
    """`name` as `named_conversation` takes it."""
    async with open_for_reading(loaded) as journal:
        conversation_id = await named_conversation(journal, name)
        facts = await _needed(journal, conversation_id)
        ended = isinstance(facts[-1].fact, TurnEnded)
        held_by = None if ended else await holder_of(journal, conversation_id)
    opened = opening_of(facts)
    return Continued(
        conversation_id=conversation_id,
        loaded=_as_it_began(loaded, opened),
        workspace=Path(opened.workspace),
        facts=facts,
        held_by=held_by,
    )


async def _needed(journal: Journal, conversation_id: ConversationId) -> list[Recorded]:
    """From the last compaction on; all of it where the last turn began before that."""
    facts = await journal.opening(conversation_id)
    if any(isinstance(each.fact, TurnStarted) for each in facts):
        return facts
    return await facts_of(journal, conversation_id)


def opening_of(facts: Sequence[Recorded]) -> ConversationOpened:
    """Its own: that of a fork comes after what it shares."""
    own = [each.fact for each in facts if isinstance(each.fact, ConversationOpened)]
    assert own, "a conversation begins with conversation.opened"
    return own[-1]


def with_caps_kept(taken_up: Continued) -> Loaded:
    """A task that is carried on keeps the caps that it had, bar those named now on the command line."""
    loaded = taken_up.loaded
    before: dict[str, float | None] = {}
    for recorded in taken_up.facts:
        match recorded.fact:
            case TurnStarted(max_tokens=tokens, max_cost_usd=cost_usd):
                before = {"max_tokens": tokens, "max_cost_usd": cost_usd}
            case ContextCompacted(task=TaskSoFar() as task):
                before = {"max_tokens": task.max_tokens, "max_cost_usd": task.max_cost_usd}
            case Note(code="budget-changed", data=data):
                before = {name: value for name in before if isinstance(value := data.get(name), int | float)}
            case _:
                pass
    kept = {
        name: value
        for name, value in before.items()
        if value is not None and not _named_now(loaded, ("loop", "limits", name))
    }
    limits = msgspec.structs.replace(loaded.settings.loop.limits, **kept)
    loop = msgspec.structs.replace(loaded.settings.loop, limits=limits)
    return msgspec.structs.replace(loaded, settings=msgspec.structs.replace(loaded.settings, loop=loop))


def _named_now(loaded: Loaded, path: tuple[str, ...]) -> bool:
    return path in loaded.said and loaded.said[path].place.layer == "flag"


def _as_it_began(loaded: Loaded, opened: ConversationOpened) -> Loaded:
    loaded = with_assigned(loaded, opened.settings)
    if not _named_now(loaded, ("machine", "ssh")):
        machine = msgspec.structs.replace(loaded.settings.machine, ssh=opened.ssh)
        loaded = msgspec.structs.replace(loaded, settings=msgspec.structs.replace(loaded.settings, machine=machine))
    if _named_now(loaded, ("model",)) or not opened.model:
        return loaded
    settings = loaded.settings
    if opened.model != settings.model:
        settings = answered_by(settings, opened.model)
    if opened.base_url:
        endpoint = Provider(base_url=opened.base_url, dialect=opened.dialect, api_key_env=opened.api_key_env)
        named = {**settings.providers.named, ENDPOINT: endpoint}
        settings = msgspec.structs.replace(settings, providers=msgspec.structs.replace(settings.providers, named=named))
    return msgspec.structs.replace(loaded, settings=settings)
