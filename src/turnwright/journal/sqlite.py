"""The default journal: one SQLite database in a folder of its own, shared by every process of a user."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from turnwright.journal import leases
from turnwright.journal.database import DATABASE, explained
from turnwright.journal.files import open_files
from turnwright.journal.following import Watch
from turnwright.journal.jobs import Append, Change, Job, SqliteLease
from turnwright.journal.marks import MARK
from turnwright.journal.paged import PagedReads
from turnwright.journal.payloads import packed
from turnwright.journal.processes import myself
from turnwright.journal.reading import Reader
from turnwright.journal.records import ConversationSummary, Hit, Lease, Report, WallClock
from turnwright.journal.rows import Entry, entries, restored
from turnwright.journal.stretches import Read
from turnwright.journal.waking import Waker
from turnwright.journal.writer import Writer
from turnwright.schema.errors import InputError, JournalError, JournalUnwritable
from turnwright.schema.facts import Fact, Recorded
from turnwright.schema.ids import ConversationId, Prefix, Seq

if TYPE_CHECKING:
    from turnwright.journal.stored import Pruned, Stored

Answer = TypeVar("Answer")

ALL = 2**62

_NO_BLOBS: Mapping[str, bytes] = MappingProxyType({})


class SqliteJournal(PagedReads):
    """Open it with `await SqliteJournal.open(folder, clock=clock)`; use it on that event loop; close it."""

    def __init__(self, folder: Path, clock: WallClock, label: str) -> None:
        """Use `open`."""
        self.folder = folder
        self._clock = clock
        self._me = myself(label)
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal-reader")
        self._reader = Reader(folder / DATABASE)
        self._watch = Watch(folder / MARK)
        super().__init__(self._watch)
        self._writer: Writer | None = None
        self._done: deque[Sequence[Job[Any]]] = deque()
        self._closed = False
        self._waker: Waker | None = None

    @classmethod
    async def open(
        cls, folder: str | os.PathLike[str], *, clock: WallClock, read_only: bool = False, label: str = ""
    ) -> SqliteJournal:
        """`label` is what others are told about this holder (run, server, ...)."""
        journal = cls(_absolute(folder), clock, label)
        try:
            await journal._open(read_only)
        except BaseException:
            await journal.close()
            raise
        return journal

    async def _open(self, read_only: bool) -> None:
        path = self.folder / DATABASE
        if read_only:
            with explained(path):
                there = path.exists()
            if not there:
                raise InputError(f"There is no journal in {self.folder}.", remedy="Nothing was recorded there yet.")
            return await self._in_thread(self._reader.check)
        connection, marks = await self._in_thread(lambda: open_files(path, self._clock.wall_ms()))
        self._writer = Writer(path, connection, marks, self._clock, self._watch.committing, self._deliver)
        self._waker = Waker(self._loop, self._settle)
        return None

    async def __aenter__(self) -> SqliteJournal:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Gives back every lease, finishes what was submitted and closes the files. Twice is once."""
        if self._closed:
            return
        self._closed = True
        self._watch.close()
        writer, self._writer = self._writer, None
        try:
            if writer is not None:
                await self._release_all(writer)
            await self._in_thread(self._reader.close)
            if writer is not None:
                # Last: SQLite empties and removes the log when its last connection goes.
                await self._in_thread(writer.stop)
        finally:
            self._threads.shutdown(wait=False)
            if self._waker is not None:
                self._settle()
                self._waker.close()

    async def _release_all(self, writer: Writer) -> None:
        held = [(lease.number, lease.generation) for lease in writer.leases.values()]
        writer.leases.clear()

        def work(connection: apsw.Connection) -> None:
            for number, generation in held:
                leases.release(connection, number, generation)

        # Should the disk refuse, the leases run out by themselves, at once where this process ends.
        with contextlib.suppress(JournalError):
            if held:
                await self._change(writer, work)

    # Writing

    async def acquire(
        self, conversation_id: ConversationId, *, create: bool = False, prefix: Prefix | None = None
    ) -> Lease:
        """JournalHeld names who else writes it. A holder that is dead is replaced at once."""
        writer = self._writable()
        now_ms = self._clock.wall_ms()

        def take(connection: apsw.Connection) -> SqliteLease:
            held = leases.acquire(connection, conversation_id, create=create, prefix=prefix, me=self._me, now_ms=now_ms)
            lease = SqliteLease(conversation_id, held.generation, held.last_seq, self._give_back)
            lease.number, lease.last_hash = held.number, held.last_hash
            return lease

        def undo(lease: SqliteLease) -> None:
            writer.leases.pop(lease.number, None)
            work = _releasing(lease)
            writer.submit(Change(work, self._loop.create_future()))

        return await self._change(writer, take, undo)

    async def _give_back(self, lease: Lease) -> None:
        assert isinstance(lease, SqliteLease)
        if self._writer is not None:
            self._writer.leases.pop(lease.number, None)
            await self._change(self._writer, _releasing(lease))

    async def append(
        self,
        lease: Lease,
        facts: Sequence[tuple[int, Fact]],
        blobs: Mapping[str, bytes] = _NO_BLOBS,
        bodies: Sequence[bytes] = (),
    ) -> Sequence[Seq]:
        """Durable on return, all or none; `at` is UTC milliseconds, a blob's key its SHA-256 in hex."""
        return await self._append(lease, entries(facts, bodies), blobs)

    async def restore(
        self, lease: Lease, facts: Sequence[Recorded], blobs: Mapping[str, bytes] = _NO_BLOBS
    ) -> Sequence[Seq]:
        """Append facts of another journal, byte for byte and with their times; they get the next seqs."""
        return await self._append(lease, restored(facts), blobs)

    async def _append(self, lease: Lease, rows: Sequence[Entry], blobs: Mapping[str, bytes]) -> Sequence[Seq]:
        writer = self._writable()
        assert isinstance(lease, SqliteLease), "the lease of another journal"
        assert not lease.released, "the lease was given back"
        assert rows, "an append without facts"
        stored = await asyncio.to_thread(packed, blobs) if blobs else ()
        job = Append(lease, rows, stored, self._loop.create_future())
        writer.submit(job)
        return await job.future

    def _writable(self) -> Writer:
        if self._writer is None:
            assert not self._closed, "the journal was closed"
            raise JournalUnwritable(
                f"The journal in {self.folder} was opened for reading only.", remedy="Open it for writing."
            )
        return self._writer

    async def _change(
        self,
        writer: Writer,
        work: Callable[[apsw.Connection], Answer],
        undo: Callable[[Answer], object] | None = None,
    ) -> Answer:
        future: asyncio.Future[Answer] = self._loop.create_future()
        job = Change(work, future, undo)
        writer.submit(job)
        return await job.future

    def _deliver(self, jobs: Sequence[Job[Any]]) -> None:
        """On the writer thread."""
        self._done.append(jobs)
        assert self._waker is not None
        self._waker.ring()

    def _settle(self) -> None:
        while self._done:
            jobs = self._done.popleft()
            for job in jobs:
                job.settle()
            self._watch.wake(job.lease.conversation_id for job in jobs if isinstance(job, Append))

    # Reading

    async def _page(self, conversation_id: ConversationId, seq: Seq, limit: int) -> list[Read]:
        return await self._in_thread(lambda: self._reader.since(conversation_id, seq, limit))

    async def _page_before(self, conversation_id: ConversationId, seq: Seq, limit: int) -> list[Read]:
        return await self._in_thread(lambda: self._reader.before(conversation_id, seq, limit))

    async def _beginning(self, conversation_id: ConversationId) -> tuple[list[Read], Seq]:
        return await self._in_thread(lambda: self._reader.opening(conversation_id))

    async def blob(self, sha256: str) -> bytes:
        return await self._in_thread(lambda: self._reader.blob(sha256))

    async def conversations(self, limit: int = 50) -> list[ConversationSummary]:
        """Those that were written last come first."""
        now_ms, host = self._clock.wall_ms(), self._me.host
        return await self._in_thread(lambda: self._reader.conversations(limit, now_ms, host))

    async def verify(self) -> Report:
        """Everything is read; it may take a while, and others go on meanwhile."""
        from turnwright.journal.verify import verify

        return await asyncio.to_thread(verify, self.folder)

    async def search(self, query: str, limit: int = 20, conversation_id: ConversationId | None = None) -> list[Hit]:
        """Brings the index up to date first, apart from every other read."""
        from turnwright.journal.search.index import search
        from turnwright.journal.search.words import wanted

        asked = wanted(query)
        return await asyncio.to_thread(search, self.folder, asked, limit, conversation_id)

    async def reindex(self) -> int:
        from turnwright.journal.search.index import rebuild

        return await asyncio.to_thread(rebuild, self.folder)

    async def stored(self) -> Stored:
        from turnwright.journal.sizing import stored

        return await asyncio.to_thread(stored, self.folder, await self.conversations(ALL))

    # Deleting

    async def prune(
        self, conversations: Sequence[ConversationId], *, captures: bool = False, dry_run: bool = False
    ) -> Pruned:
        """Room is given back to the disk where nobody writes; else what comes next takes it."""
        from turnwright.journal.pruning import Names, compact, nobody_writes, pruning

        writer, path = self._writable(), self.folder / DATABASE
        now_ms, host = self._clock.wall_ms(), self._me.host
        names = await asyncio.to_thread(Names, path)
        work = pruning(names, conversations, captures=captures, dry_run=dry_run, host=host, now_ms=now_ms)
        pruned = await self._change(writer, work)
        alone = await self._change(writer, lambda connection: nobody_writes(connection, now_ms, host))
        if not dry_run and alone and (pruned.facts or pruned.payloads):
            with contextlib.suppress(JournalUnwritable):  # a disk without room for a copy: what is free is used again
                await asyncio.to_thread(compact, path)
        return pruned

    async def _in_thread(self, work: Callable[[], Answer]) -> Answer:
        return await self._loop.run_in_executor(self._threads, work)


def _absolute(folder: str | os.PathLike[str]) -> Path:
    return Path(folder).absolute()


def _releasing(lease: SqliteLease) -> Callable[[apsw.Connection], None]:
    return lambda connection: leases.release(connection, lease.number, lease.generation)
