"""Leases and appends. A lease is fenced by its generation, an append by the head it moves.

A conversation's row says where it ends: the hash of its last fact, which ties in everything before it. An append is one
statement that moves the head from the hash it knows to the hash it makes, and does nothing where the head stands
elsewhere. So the new hash is the id of the commit: after a connection broke in the middle, the same statement is sent
again, and either it finds the head where it was, or finds it moved by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from turnwright.journal import leases
from turnwright.journal.payloads import Blob
from turnwright.journal.postgres.reading import Connection, holder_in, stretches_of
from turnwright.journal.postgres.server import Server
from turnwright.journal.processes import is_dead
from turnwright.journal.records import LEASE_MS, Holder, Lease
from turnwright.journal.rows import NO_HASH, Entry, row_hash
from turnwright.schema.errors import JournalDamaged, JournalError, TurnwrightError
from turnwright.schema.ids import ConversationId, Prefix, Seq

CHANNEL = "turnwright_facts"

_APPEND = f"""
    WITH head AS (
        UPDATE conversations
        SET last_seq = $3, last_hash = $4, last_at = $5, commit_number = nextval('commit_numbers'),
            expires_at = greatest(expires_at, $6)
        WHERE number = $1 AND generation = $2 AND last_hash = $7
        RETURNING number, id
    ), stored AS (
        INSERT INTO blobs SELECT b.* FROM head, unnest($8::bytea[], $9::bigint[], $10::boolean[], $11::bytea[]) b
        ON CONFLICT DO NOTHING
    ), written AS (
        INSERT INTO facts SELECT head.number, f.*
        FROM head, unnest($12::bigint[], $13::bigint[], $14::integer[], $15::integer[], $16::bytea[], $17::bytea[]) f
    )
    SELECT pg_notify('{CHANNEL}', id) FROM head
"""
_ROW = "SELECT * FROM conversations WHERE id = $1 FOR UPDATE"


class _Waiting(NamedTuple):
    entries: Sequence[Entry]
    blobs: Sequence[Blob]
    future: asyncio.Future[Sequence[Seq]]


class PostgresLease(Lease):
    __slots__ = ("flushing", "last_hash", "number", "unresolved", "waiting")
    number: int
    last_hash: bytes
    waiting: list[_Waiting]
    """Appends that the next commit takes with it."""
    flushing: asyncio.Task[None] | None
    unresolved: tuple[Seq, bytes] | None
    """Where it would end by a commit of which nobody learned whether it was carried out."""


class Held(NamedTuple):
    number: int
    generation: int
    last_seq: Seq
    last_hash: bytes


async def acquire(
    connection: Connection,
    conversation_id: ConversationId,
    *,
    create: bool,
    prefix: Prefix | None,
    me: Holder,
    now_ms: int,
    again: bool,
) -> Held:
    """`again`: it may have been done before, on a connection that broke."""
    async with connection.transaction():
        row = await connection.fetchrow(_ROW, conversation_id)
        if row is None and create:
            await _create(connection, conversation_id, prefix)
            row = await connection.fetchrow(_ROW, conversation_id)
        if row is not None and row["pruned"]:
            raise leases.pruned(conversation_id)
        if row is None or (row["last_seq"] <= row["through"] and not create):
            raise leases.no_conversation(conversation_id)
        mine = msgspec.structs.replace(me, since_ms=now_ms)
        holder = holder_in(row)
        if row["expires_at"] > now_ms and not is_dead(holder, me.host) and not (again and holder == mine):
            raise leases.held_by(conversation_id, holder)
        await connection.execute(
            "UPDATE conversations SET generation = generation + 1, expires_at = $2, since_ms = $3, pid = $4, "
            "host = $5, start_time = $6, label = $7 WHERE number = $1",
            row["number"],
            now_ms + LEASE_MS,
            now_ms,
            me.pid,
            me.host,
            me.start_time,
            me.label,
        )
    return Held(row["number"], row["generation"] + 1, row["last_seq"], row["last_hash"])


async def _create(connection: Connection, conversation_id: ConversationId, prefix: Prefix | None) -> None:
    parent, through, last_hash = None, 0, NO_HASH
    if prefix is not None:
        # The fork refers to whoever owns the last shared fact: a fork of a fork may outlive the one between.
        stretches = await stretches_of(connection, prefix.conversation_id)
        query = "SELECT last_seq FROM conversations WHERE id = $1 AND NOT pruned"
        last = await connection.fetchval(query, prefix.conversation_id)
        if not stretches or not last:
            raise leases.no_conversation(prefix.conversation_id)
        if not 1 <= prefix.through <= last:
            raise leases.no_such_fact(prefix, last)
        parent = next(one.number for one in stretches if one.after < prefix.through <= one.through)
        through = prefix.through
        link = await connection.fetchval("SELECT link FROM facts WHERE conversation = $1 AND seq = $2", parent, through)
        last_hash = link[-len(NO_HASH) :] if link is not None else NO_HASH
    await connection.execute(
        "INSERT INTO conversations (id, parent, through, last_seq, last_hash) VALUES ($1, $2, $3, $3, $4) "
        "ON CONFLICT (id) DO NOTHING",
        conversation_id,
        parent,
        through,
        last_hash,
    )


async def release(connection: Connection, number: int, generation: int) -> None:
    """The row stays, for its generation."""
    await connection.execute(
        "UPDATE conversations SET expires_at = 0 WHERE number = $1 AND generation = $2", number, generation
    )


async def renew(connection: Connection, held: Sequence[PostgresLease], now_ms: int) -> None:
    await connection.execute(
        "UPDATE conversations c SET expires_at = $1 FROM unnest($2::bigint[], $3::bigint[]) AS h (number, generation) "
        "WHERE c.number = h.number AND c.generation = h.generation",
        now_ms + LEASE_MS,
        [lease.number for lease in held],
        [lease.generation for lease in held],
    )


class Writer:
    """Appends of one lease go one after another; what waits meanwhile is committed together."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def submit(
        self, lease: PostgresLease, entries: Sequence[Entry], blobs: Sequence[Blob], now_ms: int
    ) -> asyncio.Future[Sequence[Seq]]:
        future: asyncio.Future[Sequence[Seq]] = asyncio.get_running_loop().create_future()
        lease.waiting.append(_Waiting(entries, blobs, future))
        if lease.flushing is None:
            # Apart from whoever asked: an append that nobody awaits any more is whole or absent all the same.
            lease.flushing = asyncio.create_task(self._flush(lease, now_ms))
        return future

    async def _flush(self, lease: PostgresLease, now_ms: int) -> None:
        try:
            while lease.waiting:
                together, lease.waiting = lease.waiting, []
                try:
                    await self._resolve(lease)
                except TurnwrightError as error:
                    for waiting in together:
                        if not waiting.future.done():
                            waiting.future.set_exception(error)
                else:
                    await self._commit(lease, together, now_ms)
        finally:
            lease.flushing = None

    async def _resolve(self, lease: PostgresLease) -> None:
        """After the server had been gone for too long."""
        if lease.unresolved is None:
            return
        query = "SELECT last_seq, last_hash FROM conversations WHERE number = $1"
        row = await self._server.patiently(lambda connection, _: connection.fetchrow(query, lease.number))
        if row is not None and tuple(row) == lease.unresolved:
            lease.last_seq, lease.last_hash = lease.unresolved
        lease.unresolved = None

    async def _commit(self, lease: PostgresLease, together: Sequence[_Waiting], now_ms: int) -> None:
        rows: list[tuple[int, int, int, int | None, bytes, bytes]] = []
        seq, last_hash = lease.last_seq, lease.last_hash
        answers: list[range] = []
        for waiting in together:
            first = seq + 1
            for seq, entry in enumerate(waiting.entries, first):
                own = row_hash(last_hash, lease.conversation_id, seq, entry)
                rows.append((seq, entry.at, entry.schema_version, entry.landmark, last_hash + own, entry.body))
                last_hash = own
            answers.append(range(first, seq + 1))
        # In the order of their names: two commits with the same payloads must not wait for each other.
        blobs = sorted({blob.sha256: blob for waiting in together for blob in waiting.blobs}.values())
        values = (
            *(lease.number, lease.generation, seq, last_hash, rows[-1][1], now_ms + LEASE_MS, lease.last_hash),
            *_columns(blobs, 4),
            *_columns(rows, 6),
        )
        failure: Exception = JournalError(
            f"The writer of the journal {self._server.place} stopped by an error of its own.", remedy="Report this."
        )
        try:
            await self._server.patiently(lambda connection, _: self._append(connection, lease, last_hash, values))
            lease.last_seq, lease.last_hash = seq, last_hash
            for waiting, answer in zip(together, answers, strict=True):
                if not waiting.future.done():
                    waiting.future.set_result(answer)
        except TurnwrightError as error:
            failure = error
            lease.unresolved = (seq, last_hash)
        finally:
            # Whatever happened, nobody is left waiting.
            for waiting in together:
                if not waiting.future.done():
                    waiting.future.set_exception(failure)

    async def _append(
        self, connection: Connection, lease: PostgresLease, last_hash: bytes, values: Sequence[object]
    ) -> None:
        if await connection.fetchrow(_APPEND, *values) is not None:
            return
        row = await connection.fetchrow("SELECT * FROM conversations WHERE number = $1", lease.number)
        if row is not None and row["last_hash"] == last_hash:
            return  # the same statement, sent before: its answer was lost
        if row is not None and row["generation"] != lease.generation:
            raise leases.held_by(lease.conversation_id, holder_in(row))
        raise JournalDamaged(
            f"Conversation {lease.conversation_id} in the journal {self._server.place} does not end where it was left.",
            remedy="Run `turnwright journal verify` to see what is lost.",
        )


def _columns(rows: Sequence[Sequence[object]], width: int) -> list[list[object]]:
    return [[row[place] for row in rows] for place in range(width)]
