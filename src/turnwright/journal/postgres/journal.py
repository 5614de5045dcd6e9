"""The journal by URL: the same promises as the file, kept by a PostgreSQL server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType, TracebackType

from turnwright.journal.paged import PagedReads
from turnwright.journal.payloads import packed
from turnwright.journal.postgres import keeping
from turnwright.journal.postgres.following import Notices
from turnwright.journal.postgres.reading import Reader
from turnwright.journal.postgres.schema import prepare
from turnwright.journal.postgres.searching import rebuild, search
from turnwright.journal.postgres.server import Server
from turnwright.journal.postgres.verify import verify
from turnwright.journal.postgres.writing import PostgresLease, Writer, acquire, release, renew
from turnwright.journal.processes import myself
from turnwright.journal.records import RENEW_MS, ConversationSummary, Hit, Lease, Report, WallClock
from turnwright.journal.rows import Entry, entries, restored
from turnwright.journal.search.words import wanted
from turnwright.journal.stored import Pruned, Stored
from turnwright.journal.stretches import Read
from turnwright.schema.errors import JournalError, JournalUnwritable
from turnwright.schema.facts import Fact, Recorded
from turnwright.schema.ids import ConversationId, Prefix, Seq

ALL = 2**31 - 1

_NO_BLOBS: Mapping[str, bytes] = MappingProxyType({})


class PostgresJournal(PagedReads):
    """Open it with `await PostgresJournal.open(url, clock=clock)`; use it on that event loop; close it."""

    def __init__(self, server: Server, clock: WallClock, label: str, *, read_only: bool) -> None:
        """Use `open`."""
        self._notices = Notices(server)
        super().__init__(self._notices)
        self._server = server
        self._clock = clock
        self._me = myself(label)
        self._read_only = read_only
        self._reader = Reader(server)
        self._writer = Writer(server)
        self._held: set[PostgresLease] = set()
        self._renewing: asyncio.Task[None] | None = None
        self._closed = False

    @classmethod
    async def open(cls, url: str, *, clock: WallClock, read_only: bool = False, label: str = "") -> PostgresJournal:
        """`label` is what others are told about this holder (run, server, ...)."""
        server = Server(url, label)
        await server.open()
        try:
            async with server.explained(), server.lent() as connection:
                await prepare(connection, server.place, clock.wall_ms(), read_only=read_only)
        except BaseException:
            await server.close()
            raise
        return cls(server, clock, label, read_only=read_only)

    async def __aenter__(self) -> PostgresJournal:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Gives back every lease and finishes what was submitted. Twice is once."""
        if self._closed:
            return
        self._closed = True
        await self._notices.close()
        if self._renewing is not None:
            self._renewing.cancel()
        # Should the server be gone, the leases run out by themselves.
        with contextlib.suppress(JournalError):
            for lease in list(self._held):
                await lease.release()
        await self._server.close()

    # Writing

    async def acquire(
        self, conversation_id: ConversationId, *, create: bool = False, prefix: Prefix | None = None
    ) -> Lease:
        """JournalHeld names who else writes it. A holder that is dead is replaced at once."""
        self._check_writable()
        now_ms = self._clock.wall_ms()
        held = await self._server.patiently(
            lambda connection, again: acquire(
                connection, conversation_id, create=create, prefix=prefix, me=self._me, now_ms=now_ms, again=again
            )
        )
        lease = PostgresLease(conversation_id, held.generation, held.last_seq, self._give_back)
        lease.number, lease.last_hash = held.number, held.last_hash
        lease.waiting, lease.flushing, lease.unresolved = [], None, None
        self._held.add(lease)
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew())
        return lease

    async def _give_back(self, lease: Lease) -> None:
        assert isinstance(lease, PostgresLease)
        self._held.discard(lease)
        if lease.flushing is not None:
            await asyncio.wait([lease.flushing])
        async with self._server.explained(), self._server.lent() as connection:
            await release(connection, lease.number, lease.generation)

    async def _renew(self) -> None:
        """What fails now is tried again in 15 s; should it never succeed, the lease runs out and appends say so."""
        while True:
            await asyncio.sleep(RENEW_MS / 1000)
            if self._held:
                with contextlib.suppress(JournalError):
                    now_ms, held = self._clock.wall_ms(), list(self._held)
                    async with self._server.explained(), self._server.lent() as connection:
                        await renew(connection, held, now_ms)

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
        self._check_writable()
        assert isinstance(lease, PostgresLease), "the lease of another journal"
        assert not lease.released, "the lease was given back"
        assert rows, "an append without facts"
        stored = await asyncio.to_thread(packed, blobs) if blobs else ()
        return await self._writer.submit(lease, rows, stored, self._clock.wall_ms())

    def _check_writable(self) -> None:
        assert not self._closed, "the journal was closed"
        if self._read_only:
            raise JournalUnwritable(
                f"The journal {self._server.place} was opened for reading only.", remedy="Open it for writing."
            )

    # Reading

    async def _page(self, conversation_id: ConversationId, seq: Seq, limit: int) -> list[Read]:
        return await self._reader.since(conversation_id, seq, limit)

    async def _page_before(self, conversation_id: ConversationId, seq: Seq, limit: int) -> list[Read]:
        return await self._reader.before(conversation_id, seq, limit)

    async def _beginning(self, conversation_id: ConversationId) -> tuple[list[Read], Seq]:
        return await self._reader.opening(conversation_id)

    async def blob(self, sha256: str) -> bytes:
        return await self._reader.blob(sha256)

    async def conversations(self, limit: int = 50) -> list[ConversationSummary]:
        """Those that were written last come first."""
        return await self._reader.conversations(limit, self._clock.wall_ms(), self._me.host)

    async def search(self, query: str, limit: int = 20, conversation_id: ConversationId | None = None) -> list[Hit]:
        """Brings the index up to date first."""
        return await search(self._server, wanted(query), limit, conversation_id)

    async def reindex(self) -> int:
        self._check_writable()
        return await rebuild(self._server)

    async def stored(self) -> Stored:
        return await keeping.stored(self._server, await self.conversations(ALL))

    async def prune(
        self, conversations: Sequence[ConversationId], *, captures: bool = False, dry_run: bool = False
    ) -> Pruned:
        """The server gives the room back in its own time (autovacuum)."""
        self._check_writable()
        now_ms, host = self._clock.wall_ms(), self._me.host
        return await keeping.prune(
            self._server, conversations, captures=captures, dry_run=dry_run, host=host, now_ms=now_ms
        )

    async def verify(self) -> Report:
        """Everything is read; it may take a while, and others go on meanwhile."""
        return await verify(self._server)
