"""The reading side that journals share: pages put together, damage set aside, followers woken."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from turnwright.journal.records import Damaged
from turnwright.journal.stretches import END, Read, parted
from turnwright.schema.facts import Recorded
from turnwright.schema.ids import ConversationId, Seq

PAGE_ROWS = 1_000
"""Rows read in one go: a long read lets others in between."""


class Bells(Protocol):
    """Who waits for what is appended to a conversation, by whatever process."""

    closed: bool

    def join(self, conversation_id: ConversationId) -> asyncio.Event: ...

    def leave(self, bell: asyncio.Event) -> None: ...


class PagedReads(ABC):
    def __init__(self, bells: Bells) -> None:
        self._bells = bells
        self._damaged: dict[tuple[ConversationId, Seq], Damaged] = {}

    @abstractmethod
    async def _page(self, conversation_id: ConversationId, seq: Seq, limit: int) -> list[Read]:
        """The first `limit` after `seq`, oldest first."""

    @abstractmethod
    async def _page_before(self, conversation_id: ConversationId, seq: Seq, limit: int) -> list[Read]:
        """The last `limit` before `seq`, oldest first."""

    @abstractmethod
    async def _beginning(self, conversation_id: ConversationId) -> tuple[list[Read], Seq]:
        """What is needed from before the last compaction, and the seq after which everything is."""

    async def since(self, conversation_id: ConversationId, seq: Seq = 0, limit: int | None = None) -> list[Recorded]:
        """What comes after `seq`, oldest first. Damaged records are left out; `damaged` tells which."""
        found: list[Recorded] = []
        missing = limit
        while missing is None or missing > 0:
            ask = PAGE_ROWS if missing is None else min(missing, PAGE_ROWS)
            reads = await self._page(conversation_id, seq, ask)
            found += self._sound(reads)
            if len(reads) < ask:
                break
            seq = reads[-1].seq
            missing = None if missing is None else missing - len(reads)
        return found

    async def before(self, conversation_id: ConversationId, seq: Seq, limit: int) -> list[Recorded]:
        """The last `limit` facts before `seq`, oldest first."""
        return self._sound(await self._page_before(conversation_id, seq, limit))

    async def tail(self, conversation_id: ConversationId, limit: int) -> list[Recorded]:
        """The last `limit` facts, oldest first."""
        return await self.before(conversation_id, END, limit)

    async def opening(self, conversation_id: ConversationId) -> list[Recorded]:
        """What is needed to carry on: what opened it, and everything the last compaction did not digest."""
        head, after = await self._beginning(conversation_id)
        return self._sound(head) + await self.since(conversation_id, after)

    async def follow(self, conversation_id: ConversationId, since: Seq = 0) -> AsyncIterator[Recorded]:
        """Everything after `since`, then whatever is appended, by any process, until the journal is closed."""
        bell = self._bells.join(conversation_id)
        try:
            while not self._bells.closed:
                bell.clear()
                reads = await self._page(conversation_id, since, PAGE_ROWS)
                for record in self._sound(reads):
                    yield record
                if reads:
                    since = reads[-1].seq
                else:
                    await bell.wait()
        finally:
            self._bells.leave(bell)

    def damaged(self, conversation_id: ConversationId) -> list[Damaged]:
        """Records that reads of this journal had to leave out so far."""
        return [damaged for (name, _), damaged in sorted(self._damaged.items()) if name == conversation_id]

    def _sound(self, reads: Sequence[Read]) -> list[Recorded]:
        recorded, damaged = parted(reads)
        self._damaged.update({(one.conversation_id, one.seq): one for one in damaged})
        return recorded
