"""Follow a conversation wherever it runs: live from its host while there is one, else as its journal grows."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from turnwright.app.host_client import Followed, HostLost, Unreachable, connected
from turnwright.app.reading import holder_of
from turnwright.config.load import Loaded
from turnwright.journal.port import Journal
from turnwright.schema.facts import Note, Recorded, TurnStarted
from turnwright.schema.ids import ConversationId, Seq


async def followed(
    loaded: Loaded, journal: Journal, conversation_id: ConversationId, since: Seq
) -> AsyncGenerator[Followed, None]:
    """Every fact after `since` once, in order, with what is live in between. Without end: hosts come and go."""
    while True:
        async with aclosing(_from_host(loaded, journal, conversation_id, since)) as events:
            async for event in events:
                if isinstance(event, Recorded):
                    since = event.seq
                yield event
        # What a host that died could not say any more is in the journal, and so is the first word of the next one.
        async with aclosing(journal.follow(conversation_id, since)) as facts:  # type: ignore[type-var]
            async for recorded in facts:
                since = recorded.seq
                yield recorded
                if _a_host_begins(recorded) and await holder_of(journal, conversation_id) is not None:
                    break


def _a_host_begins(recorded: Recorded) -> bool:
    match recorded.fact:
        case TurnStarted() | Note(code="turn-resumed"):
            return True
        case _:
            return False


async def _from_host(
    loaded: Loaded, journal: Journal, conversation_id: ConversationId, since: Seq
) -> AsyncGenerator[Followed, None]:
    """Nothing where nobody runs it, or cannot be reached."""
    holder = await holder_of(journal, conversation_id)
    if holder is None:
        return
    try:
        async with (
            connected(loaded.folders.data, holder) as client,
            aclosing(client.follow(conversation_id, since)) as events,
        ):
            async for event in events:
                yield event
    except (Unreachable, HostLost):
        pass
