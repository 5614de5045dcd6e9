"""What the writer thread is asked to do, and who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import apsw

from turnwright.journal.payloads import Blob
from turnwright.journal.records import Lease
from turnwright.journal.rows import Entry
from turnwright.schema.ids import Seq

Answer = TypeVar("Answer")


class SqliteLease(Lease):
    """Also knows where the conversation ends on disk. Only the writer thread moves that end."""

    __slots__ = ("last_hash", "number")
    number: int
    last_hash: bytes


class Job(Generic[Answer]):
    """Filled by the writer thread, settled on the event loop."""

    __slots__ = ("answer", "delivered", "error", "future")
    answer: Answer

    def __init__(self, future: asyncio.Future[Answer]) -> None:
        self.future = future
        self.error: Exception | None = None
        self.delivered = False

    def settle(self) -> None:
        if self.future.done():
            self.abandoned()
        elif self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.answer)

    def abandoned(self) -> None:
        """It is done, but whoever asked was cancelled."""


class Append(Job[Sequence[Seq]]):
    __slots__ = ("blobs", "entries", "lease")

    def __init__(
        self,
        lease: SqliteLease,
        entries: Sequence[Entry],
        blobs: Sequence[Blob],
        future: asyncio.Future[Sequence[Seq]],
    ) -> None:
        super().__init__(future)
        self.lease = lease
        self.entries = entries
        self.blobs = blobs


class Change(Job[Answer]):
    """A transaction other than an append."""

    __slots__ = ("_undo", "work")

    def __init__(
        self,
        work: Callable[[apsw.Connection], Answer],
        future: asyncio.Future[Answer],
        undo: Callable[[Answer], object] | None = None,
    ) -> None:
        super().__init__(future)
        self.work = work
        self._undo = undo

    def abandoned(self) -> None:
        if self._undo is not None and self.error is None:
            self._undo(self.answer)
