"""What a conversation needs to send subagents: for each a session of its own, in the same workspace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec

from turnwright.kernel.ports import Ask
from turnwright.schema.facts import ConversationOpened, Errand
from turnwright.schema.ids import ConversationId
from turnwright.schema.settings import SubagentSettings
from turnwright.session.budget import Account
from turnwright.session.conversation import Conversation, Session
from turnwright.session.subagents import Begin, Origin

OpenSession = Callable[[Errand, Ask, Account], AbstractAsyncContextManager[Session]]


class Sender:
    """`session.subagents.Sending`."""

    def __init__(
        self, rules: SubagentSettings, depth: int, open_session: OpenSession, opened: Callable[[], ConversationOpened]
    ) -> None:
        """`opened` says what it takes to find their model again."""
        self.rules = rules
        self.depth = depth
        self._open_session = open_session
        self._opened = opened

    @asynccontextmanager
    async def ready(self, errand: Errand, ask: Ask, within: Account) -> AsyncIterator[Begin]:
        async with self._open_session(errand, ask, within) as session:

            async def begin(conversation_id: ConversationId, origin: Origin) -> Conversation:
                conversation = await Conversation.create(session, conversation_id)
                conversation.begin_with(
                    msgspec.structs.replace(
                        self._opened(),
                        parent=origin.parent,
                        call_id=origin.call_id,
                        errand=origin.errand,
                        title=origin.title,
                    )
                )
                return conversation

            yield begin
