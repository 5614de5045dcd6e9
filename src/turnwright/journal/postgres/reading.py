"""Reads. The rules of forks and of damage are those of every journal (`stretches`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import asyncpg

from turnwright.journal import leases
from turnwright.journal.postgres.server import Server
from turnwright.journal.processes import is_dead
from turnwright.journal.records import ConversationSummary, Holder
from turnwright.journal.rows import COMPACTED, OPENED, TURN_ENDED, TURN_STARTED, Row, read_row
from turnwright.journal.stretches import (
    END,
    Read,
    Stretch,
    first_facts,
    judged,
    missing,
    opened_blob,
    parted,
    payload_pruned,
    shown_as,
)
from turnwright.journal.summaries import summary
from turnwright.schema.facts import ContextCompacted, Recorded
from turnwright.schema.ids import ConversationId, Seq

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

_COLUMNS = "seq, at, schema_version, landmark, body, link"
_AFTER = f"SELECT {_COLUMNS} FROM facts WHERE conversation = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4"
_BEFORE = f"SELECT {_COLUMNS} FROM facts WHERE conversation = $1 AND seq > $2 AND seq < $3 ORDER BY seq DESC LIMIT $4"
_LANDMARKS = f"SELECT {_COLUMNS} FROM facts WHERE conversation = $1 AND landmark = $2 AND seq <= $3 ORDER BY seq"
_STRETCHES = """
    WITH RECURSIVE line AS (
        SELECT number, id, parent, through, $2::bigint AS shown, 0 AS depth FROM conversations WHERE id = $1
        UNION ALL
        SELECT c.number, c.id, c.parent, c.through, line.through, depth + 1
        FROM conversations c JOIN line ON c.number = line.parent
    )
    SELECT number, id, through, shown FROM line ORDER BY depth DESC
"""
_LATEST = """
    SELECT number, id, last_seq, last_at, expires_at, since_ms, pid, host, start_time, label
    FROM conversations WHERE last_seq > through AND NOT pruned ORDER BY commit_number DESC LIMIT $1
"""


class Reader:
    def __init__(self, server: Server) -> None:
        self._server = server

    async def since(self, conversation_id: ConversationId, seq: Seq, limit: int) -> list[Read]:
        return await self._server.patiently(lambda connection, _: _since(connection, conversation_id, seq, limit))

    async def before(self, conversation_id: ConversationId, seq: Seq, limit: int) -> list[Read]:
        return await self._server.patiently(lambda connection, _: _before(connection, conversation_id, seq, limit))

    async def opening(self, conversation_id: ConversationId) -> tuple[list[Read], Seq]:
        return await self._server.patiently(lambda connection, _: _opening(connection, conversation_id))

    async def blob(self, sha256: str) -> bytes:
        query = "SELECT compressed, data FROM blobs WHERE sha256 = $1"
        row = await self._server.patiently(lambda connection, _: connection.fetchrow(query, bytes.fromhex(sha256)))
        if row is None:
            query = "SELECT 1 FROM forgotten WHERE sha256 = $1"
            if await self._server.patiently(lambda connection, _: connection.fetchrow(query, bytes.fromhex(sha256))):
                raise payload_pruned(sha256)
        return opened_blob(sha256, None if row is None else (row[0], row[1]), self._server.place)

    async def conversations(self, limit: int, now_ms: int, host: str) -> list[ConversationSummary]:
        async def latest(connection: Connection, again: bool) -> list[ConversationSummary]:
            del again
            return [await _summary(connection, row, now_ms, host) for row in await connection.fetch(_LATEST, limit)]

        return await self._server.patiently(latest)


async def _since(connection: Connection, conversation_id: ConversationId, seq: Seq, limit: int) -> list[Read]:
    found: list[Read] = []
    for stretch in await _stretches(connection, conversation_id):
        if seq < stretch.through and len(found) < limit:
            after = max(seq, stretch.after)
            reads = await _after(connection, stretch, after, limit - len(found))
            found += shown_as(conversation_id, stretch, reads)
    return found


async def _before(connection: Connection, conversation_id: ConversationId, seq: Seq, limit: int) -> list[Read]:
    found: list[Read] = []
    for stretch in reversed(await _stretches(connection, conversation_id)):
        number, owner, after, through = stretch
        if seq > after + 1 and len(found) < limit:
            ask = limit - len(found)
            rows = _rows(await connection.fetch(_BEFORE, number, after, min(seq, through + 1), ask))[::-1]
            reads = judged(owner, rows, rows[0].seq if rows else seq)
            found[:0] = shown_as(conversation_id, stretch, reads)
    return found


async def _opening(connection: Connection, conversation_id: ConversationId) -> tuple[list[Read], Seq]:
    stretches = await _stretches(connection, conversation_id)
    for stretch in reversed(stretches):
        for row in await _landmarks(connection, stretch, COMPACTED, "DESC", 3):
            match read_row(stretch.owner, row):
                case Recorded(fact=ContextCompacted(through_seq=through)) if 0 < through < row.seq:
                    head: list[Read] = []
                    for seq in first_facts(stretches, through):
                        head += await _since(connection, conversation_id, seq - 1, 1)
                    return head, through
    return [], 0


async def _after(connection: Connection, stretch: Stretch, seq: Seq, limit: int) -> list[Read]:
    number, owner, _, through = stretch
    ask = min(limit, through - seq)
    rows = _rows(await connection.fetch(_AFTER, number, seq, through, ask))
    reads = judged(owner, rows, seq + 1)
    if through != END and len(rows) < ask:
        reads += missing(owner, (reads[-1].seq if reads else seq) + 1, through)
    return reads


async def _stretches(connection: Connection, conversation_id: ConversationId) -> list[Stretch]:
    found = await stretches_of(connection, conversation_id)
    gone = await connection.fetchval("SELECT pruned FROM conversations WHERE id = $1", conversation_id)
    if not found or gone:
        raise leases.no_conversation(conversation_id)
    return found


async def stretches_of(connection: Connection, conversation_id: ConversationId) -> list[Stretch]:
    return [
        Stretch(number, owner, through, shown)
        for number, owner, through, shown in await connection.fetch(_STRETCHES, conversation_id, END)
    ]


async def own_facts(
    connection: Connection, name: ConversationId, number: int, seq: Seq, limit: int
) -> tuple[list[Recorded], Seq]:
    """What a conversation owns after `seq`, without what it shares, and how far was looked."""
    rows = _rows(await connection.fetch(_AFTER, number, seq, END, limit))
    recorded, _ = parted([read_row(name, row) for row in rows])
    return recorded, rows[-1].seq if rows else seq


async def _landmarks(connection: Connection, stretch: Stretch, kind: int, order: str, limit: int) -> list[Row]:
    query = f"{_LANDMARKS} {order} LIMIT {limit}"
    return _rows(await connection.fetch(query, stretch.number, kind, stretch.through))


def _rows(records: Iterable[asyncpg.Record]) -> list[Row]:
    return [Row(*record) for record in records]


async def _summary(connection: Connection, row: asyncpg.Record, now_ms: int, host: str) -> ConversationSummary:
    stretches = await stretches_of(connection, row["id"])

    async def landmark(kind: int, order: str = "ASC") -> Recorded | None:
        for stretch in stretches if order == "ASC" else reversed(stretches):
            for found in await _landmarks(connection, stretch, kind, order, 1):
                read = read_row(stretch.owner, found)
                return read if isinstance(read, Recorded) else None
        return None

    holder = holder_in(row)
    held = row["expires_at"] > now_ms and not is_dead(holder, host)
    return summary(
        row["id"],
        opened=await landmark(OPENED, "DESC"),
        first_turn=await landmark(TURN_STARTED),
        last_turn=await landmark(TURN_STARTED, "DESC"),
        last_end=await landmark(TURN_ENDED, "DESC"),
        last_seq=row["last_seq"],
        last_at=row["last_at"],
        held_by=holder if held else None,
    )


def holder_in(row: asyncpg.Record) -> Holder:
    return Holder(
        pid=row["pid"], host=row["host"], start_time=row["start_time"], label=row["label"], since_ms=row["since_ms"]
    )
