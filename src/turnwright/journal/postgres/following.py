"""Waking those who follow: every commit sends a notice, which all processes hear."""

from __future__ import annotations

import asyncio
import contextlib

import asyncpg

from turnwright.journal.postgres.server import LOST, Server
from turnwright.journal.postgres.writing import CHANNEL
from turnwright.schema.ids import ConversationId

REREAD_S = 1.0
"""A notice may be lost with its connection: followers read again, and the connection is made anew."""


class Notices:
    """Starts with the first follower and rests after the last."""

    def __init__(self, server: Server) -> None:
        self.closed = False
        self._server = server
        self._bells: dict[asyncio.Event, ConversationId] = {}
        self._listening: asyncio.Task[None] | None = None

    def join(self, conversation_id: ConversationId) -> asyncio.Event:
        bell = asyncio.Event()
        self._bells[bell] = conversation_id
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())
        return bell

    def leave(self, bell: asyncio.Event) -> None:
        self._bells.pop(bell, None)

    async def close(self) -> None:
        self.closed = True
        self._wake()
        if self._listening is not None:
            self._listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listening

    async def _listen(self) -> None:
        while not self.closed:
            with contextlib.suppress(*LOST, asyncpg.PostgresError):
                connection = await self._server.listener()
                try:
                    await connection.add_listener(CHANNEL, self._heard)
                    # What was committed before the listener stood was not heard.
                    self._wake()
                    while not connection.is_closed():
                        await asyncio.sleep(REREAD_S)
                        self._wake()
                finally:
                    connection.terminate()
            await asyncio.sleep(REREAD_S)
            self._wake()

    def _heard(self, connection: object, pid: object, channel: object, payload: object) -> None:
        del connection, pid, channel
        for bell, conversation_id in self._bells.items():
            if conversation_id == payload:
                bell.set()

    def _wake(self) -> None:
        for bell in self._bells:
            bell.set()
