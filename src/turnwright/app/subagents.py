"""What a conversation needs to send subagents: for each a session of its own, in the same workspace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec

from turnwright.kernel.ports import Ask
from turnwright.schema.facts import ConversationOpened, Errand
from turnwright.schema.ids import ConversationId
from turnwright.schema.settings import SubagentSettings
from turnwright.session.budget import Account
from turnwright.session.conversation import Conversation, Session
from turnwright.session.hosting import Hosted
from turnwright.session.subagents import Begin, Origin

Offer = Callable[[Conversation], Hosted]
"""Lets other processes follow it, steer it and stop it."""
OpenSession = Callable[[Errand, Ask, Account], AbstractAsyncContextManager[Session]]


class Sender:
    """`session.subagents.Sending`."""

    def __init__(
        self,
        rules: SubagentSettings,
        depth: int,
        open_session: OpenSession,
        opened: Callable[[], ConversationOpened],
        hosts: Sequence[Offer],
    ) -> None:
        """`opened` says what it takes to find their model again. `hosts` are looked up when one begins."""
        self.rules = rules
        self.depth = depth
        self._open_session = open_session
        self._opened = opened
        self._hosts = hosts

    @asynccontextmanager
    async def ready(self, errand: Errand, ask: Ask, within: Account) -> AsyncIterator[Begin]:
        async with self._open_session(errand, ask, within) as session:
            offered: list[Hosted] = []

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
                offered.extend(offer(conversation) for offer in self._hosts)
                return conversation

            try:
                yield begin
            finally:
                for each in offered:
                    each.close()
