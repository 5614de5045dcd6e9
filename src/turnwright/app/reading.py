"""Reading a journal that somebody else may be writing: no lease, no change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from turnwright.app.journals import opened_journal
from turnwright.config.load import Loaded
from turnwright.journal.port import Journal
from turnwright.journal.records import Holder
from turnwright.schema.errors import InputError
from turnwright.schema.facts import Recorded, ToolEnded
from turnwright.schema.ids import CONVERSATION_ID, ConversationId, Seq

PROBE_TITLE = "probe of "
"""How titles of conversations begin in which nobody but `turnwright probe` spoke."""
LAST_AMONG = (50, 5_000)
"""A run may have sent many subagents; they are nobody's last conversation."""


@asynccontextmanager
async def open_for_reading(loaded: Loaded) -> AsyncIterator[Journal]:
    async with opened_journal(loaded, label="reader", read_only=True) as journal:
        yield journal


async def named_conversation(journal: Journal, name: str) -> ConversationId:
    """An id, the beginning of one that only one conversation has, or `last`: the newest that is no probe's and no
    subagent's."""
    if name == "last":
        for among in LAST_AMONG:
            for each in await journal.conversations(among):
                if each.sent_by is None and not each.title.startswith(PROBE_TITLE):
                    return each.id
        raise InputError("There is no conversation yet.", remedy="Start one with turnwright run.")
    known = await journal.conversations(10_000) if CONVERSATION_ID.fullmatch(name) is None else []
    matching = [each.id for each in known if each.id.startswith(name) and len(name) > 2]
    if len(matching) > 1:
        raise InputError(f"{name} is the beginning of {len(matching)} conversations.", remedy="Give more of the id.")
    return matching[0] if matching else name


async def holder_of(journal: Journal, conversation_id: ConversationId) -> Holder | None:
    """The process that writes it now, if one does."""
    known = await journal.conversations(10_000)
    return next((each.held_by for each in known if each.id == conversation_id), None)


async def at_rest(journal: Journal, conversation_id: ConversationId) -> Seq | None:
    """The number of its last fact, where no process writes it now."""
    if await holder_of(journal, conversation_id) is not None:
        return None
    return (await journal.tail(conversation_id, 1))[-1].seq


async def facts_of(journal: Journal, conversation_id: ConversationId) -> list[Recorded]:
    facts = await journal.since(conversation_id)
    if not facts:
        raise no_conversation(conversation_id)
    return facts


def no_conversation(conversation_id: ConversationId) -> InputError:
    return InputError(f"There is no conversation {conversation_id}.", remedy="See turnwright sessions.")


async def blobs_of(journal: Journal, facts: Iterable[Recorded]) -> dict[str, bytes]:
    """The payloads that were set apart, by their hash."""
    refs = [each.fact.output_blob for each in facts if isinstance(each.fact, ToolEnded) and each.fact.output_blob]
    return {ref.sha256: await journal.blob(ref.sha256) for ref in refs}
