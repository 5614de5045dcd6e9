"""Who may write a conversation. Every function runs inside a write transaction."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import apsw

from turnwright.journal.processes import is_dead
from turnwright.journal.records import LEASE_MS, Holder
from turnwright.journal.rows import HASH_BYTES, NO_HASH
from turnwright.schema.errors import InputError, JournalHeld
from turnwright.schema.ids import ConversationId, Seq


class Held(NamedTuple):
    """A conversation that this process now writes, and where it ends."""

    number: int
    generation: int
    last_seq: Seq
    last_hash: bytes


def acquire(
    connection: apsw.Connection, conversation_id: ConversationId, *, create: bool, me: Holder, now_ms: int
) -> Held:
    number = connection.execute("SELECT number FROM conversations WHERE id = ?", (conversation_id,)).get
    last = None
    if number is not None:
        last = connection.execute(
            "SELECT seq, link FROM facts WHERE conversation = ? ORDER BY seq DESC LIMIT 1", (number,)
        ).get
    if last is None and not create:
        raise no_conversation(conversation_id)
    if number is None:
        connection.execute("INSERT INTO conversations (id) VALUES (?)", (conversation_id,))
        number = connection.last_insert_rowid()
    holder, expires_at, generation = _lease(connection, number)
    if holder is not None and expires_at > now_ms and not is_dead(holder, me.host):
        raise held_by(conversation_id, holder)
    connection.execute(
        "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (number, generation + 1, now_ms + LEASE_MS, now_ms, me.pid, me.host, me.start_time, me.label),
    )
    seq, link = last or (0, NO_HASH)
    return Held(number, generation + 1, seq, link[-HASH_BYTES:])


def renew(connection: apsw.Connection, number: int, generation: int, now_ms: int) -> bool:
    """False where somebody else has taken it."""
    connection.execute(
        "UPDATE leases SET expires_at = ? WHERE conversation = ? AND generation = ?",
        (now_ms + LEASE_MS, number, generation),
    )
    return connection.changes() > 0


def release(connection: apsw.Connection, number: int, generation: int) -> None:
    """The row stays, for its generation."""
    connection.execute(
        "UPDATE leases SET expires_at = 0 WHERE conversation = ? AND generation = ?", (number, generation)
    )


def generation_of(connection: apsw.Connection, number: int) -> int:
    found = connection.execute("SELECT generation FROM leases WHERE conversation = ?", (number,)).get
    return int(found or 0)


def holder_of(connection: apsw.Connection, number: int, now_ms: int, host: str) -> Holder | None:
    """Who writes it now, if anybody does."""
    holder, expires_at, _ = _lease(connection, number)
    return holder if holder is not None and expires_at > now_ms and not is_dead(holder, host) else None


def taken_over(connection: apsw.Connection, number: int, conversation_id: ConversationId) -> JournalHeld:
    holder, _, _ = _lease(connection, number)
    assert holder is not None, "a lease that was held has a row"
    return held_by(conversation_id, holder)


def held_by(conversation_id: ConversationId, holder: Holder) -> JournalHeld:
    since = datetime.fromtimestamp(holder.since_ms / 1000, tz=UTC)
    label = f" ({holder.label})" if holder.label else ""
    return JournalHeld(
        f"Conversation {conversation_id} is being written by process {holder.pid} on {holder.host}{label}, "
        f"since {since:%Y-%m-%d %H:%M:%S} UTC.",
        remedy=f"Watch it with `turnwright follow {conversation_id}`, or end that process first.",
    )


def no_conversation(conversation_id: ConversationId) -> InputError:
    return InputError(
        f"There is no conversation {conversation_id} in this journal.", remedy="`turnwright sessions` lists them."
    )


def _lease(connection: apsw.Connection, number: int) -> tuple[Holder | None, int, int]:
    """Holder, when its lease runs out, and its generation."""
    row = connection.execute(
        "SELECT pid, host, start_time, label, since_ms, expires_at, generation FROM leases WHERE conversation = ?",
        (number,),
    ).get
    if row is None:
        return None, 0, 0
    pid, host, start_time, label, since_ms, expires_at, generation = row
    holder = Holder(pid=pid, host=host, start_time=start_time, label=label, since_ms=since_ms)
    return holder, expires_at, generation
