"""A turn under way, as a face sees it: events as they happen, then the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from turnwright.kernel.loop import TurnOutcome
from turnwright.schema.ids import ConversationId
from turnwright.session.broadcast import Event
from turnwright.session.conversation import Conversation


class Running:
    """`start` is called when somebody begins to iterate, or runs it unwatched. Whatever ends the turn early is raised
    from there, after the last event. Leaving the iteration stops the turn."""

    def __init__(self, conversation: Conversation, start: Callable[[], Awaitable[TurnOutcome]]) -> None:
        self.conversation = conversation
        self.outcome: TurnOutcome | None = None
        self._start = start

    @property
    def conversation_id(self) -> ConversationId:
        return self.conversation.id

    def stop(self) -> None:
        self.conversation.stop()

    async def __aiter__(self) -> AsyncGenerator[Event, None]:
        subscription = self.conversation.subscribe()
        task = asyncio.ensure_future(self._start())
        task.add_done_callback(lambda _: subscription.end())
        try:
            async for event in subscription:
                yield event
            self.outcome = await task
        finally:
            subscription.close()
            await self._stopped(task)

    async def unwatched(self) -> TurnOutcome:
        """The whole turn, for whom only its outcome counts: no event is made for nobody. Cancelling it stops the
        turn."""
        task = asyncio.ensure_future(self._start())
        try:
            self.outcome = await asyncio.shield(task)
        finally:
            await self._stopped(task)
        return self.outcome

    async def _stopped(self, task: asyncio.Future[TurnOutcome]) -> None:
        if not task.done():
            self.conversation.stop()
            await asyncio.wait([task])
