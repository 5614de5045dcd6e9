"""A conversation of this process, offered to the user's other processes while its turns run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from turnwright.app.engine import Engine
from turnwright.app.host_server import reachable
from turnwright.schema.errors import MachineError
from turnwright.schema.facts import Note
from turnwright.session.conversation import Conversation
from turnwright.session.hosting import Host, Hosted
from turnwright.session.questions import Questions


@asynccontextmanager
async def hosted(
    engine: Engine, conversation: Conversation, questions: Questions, *, required: bool = False
) -> AsyncIterator[None]:
    """Enter it before the first turn begins. Where no socket can be made the turn runs all the same, and its journal
    says so; unless it is `required`, because there would be no other way to the turn."""
    host = Host(engine.journal)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(reachable(host, engine.loaded.folders.data))
        except MachineError as bad:
            if required:
                raise
            conversation.notice(Note(code="not-hosted", text=str(bad)))
        offered = host.add(conversation, questions)

        def offer(subagent: Conversation) -> Hosted:
            return host.add(subagent, questions)

        engine.hosts.append(offer)
        try:
            yield
        finally:
            engine.hosts.remove(offer)
            offered.close()
