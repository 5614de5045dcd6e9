"""Who may write a conversation. Every function runs inside a write transaction."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import apsw

from turnwright.journal.processes import is_dead
from turnwright.journal.records import LEASE_MS, Holder
from turnwright.journal.rows import HASH_BYTES, NO_HASH
from turnwright.schema.errors import InputError, JournalHeld
from turnwright.schema.ids import ConversationId, Prefix, Seq


class Held(NamedTuple):
    """A conversation that this process now writes, and where it ends."""

    number: int
    generation: int
    last_seq: Seq
    last_hash: bytes


def acquire(
    connection: apsw.Connection,
    conversation_id: ConversationId,
    *,
    create: bool,
    prefix: Prefix | None,
    me: Holder,
    now_ms: int,
) -> Held:
    number = _number(connection, conversation_id)
    if number is not None and _is_pruned(connection, number):
        raise pruned(conversation_id)
    last = _last(connection, number) if number is not None else None
    if last is None and not create:
        raise no_conversation(conversation_id)
    if number is None:
        connection.execute("INSERT INTO conversations (id) VALUES (?)", (conversation_id,))
        number = connection.last_insert_rowid()
        if prefix is not None:
            _share(connection, number, prefix)
    holder, expires_at, generation = _lease(connection, number)
    if holder is not None and expires_at > now_ms and not is_dead(holder, me.host):
        raise held_by(conversation_id, holder)
    connection.execute(
        "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (number, generation + 1, now_ms + LEASE_MS, now_ms, me.pid, me.host, me.start_time, me.label),
    )
    seq, link = last or _end_of_prefix(connection, number)
    return Held(number, generation + 1, seq, link[-HASH_BYTES:])


def _number(connection: apsw.Connection, conversation_id: ConversationId) -> int | None:
    found: int | None = connection.execute("SELECT number FROM conversations WHERE id = ?", (conversation_id,)).get
    return found


def _last(connection: apsw.Connection, number: int) -> tuple[Seq, bytes] | None:
    found: tuple[Seq, bytes] | None = connection.execute(
        "SELECT seq, link FROM facts WHERE conversation = ? ORDER BY seq DESC LIMIT 1", (number,)
    ).get
    return found


def _share(connection: apsw.Connection, number: int, prefix: Prefix) -> None:
    """The fork refers to whoever owns the last shared fact: a fork of a fork may outlive the one between."""
    owner = _number(connection, prefix.conversation_id)
    last = _last(connection, owner) if owner is not None else None
    if owner is None or last is None or _is_pruned(connection, owner):
        raise no_conversation(prefix.conversation_id)
    if not 1 <= prefix.through <= last[0]:
        raise no_such_fact(prefix, last[0])
    while (under := _prefix_of(connection, owner)) is not None and prefix.through <= under[1]:
        owner = under[0]
    connection.execute("INSERT INTO prefixes VALUES (?, ?, ?)", (number, owner, prefix.through))


def _is_pruned(connection: apsw.Connection, number: int) -> bool:
    return connection.execute("SELECT 1 FROM pruned WHERE conversation = ?", (number,)).get is not None


def _prefix_of(connection: apsw.Connection, number: int) -> tuple[int, Seq] | None:
    found: tuple[int, Seq] | None = connection.execute(
        "SELECT parent, through FROM prefixes WHERE conversation = ?", (number,)
    ).get
    return found


def _end_of_prefix(connection: apsw.Connection, number: int) -> tuple[Seq, bytes]:
    """What the first fact of a conversation follows: nothing, or the last fact that a fork shares."""
    under = _prefix_of(connection, number)
    if under is None:
        return 0, NO_HASH
    link = connection.execute("SELECT link FROM facts WHERE conversation = ? AND seq = ?", under).get
    return under[1], link or NO_HASH


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


def pruned(conversation_id: ConversationId) -> InputError:
    return InputError(
        f"Conversation {conversation_id} was pruned; only what forks share of it is left.",
        remedy="Go on in one of the forks.",
    )


def held_by(conversation_id: ConversationId, holder: Holder) -> JournalHeld:
    since = datetime.fromtimestamp(holder.since_ms / 1000, tz=UTC)
    label = f" ({holder.label})" if holder.label else ""
    return JournalHeld(
        f"Conversation {conversation_id} is being written by process {holder.pid} on {holder.host}{label}, "
        f"since {since:%Y-%m-%d %H:%M:%S} UTC.",
        remedy=f"Watch it with `turnwright follow {conversation_id}`, or end that process first.",
    )


def no_such_fact(prefix: Prefix, last: Seq) -> InputError:
    return InputError(
        f"Conversation {prefix.conversation_id} has no fact {prefix.through}; its last is {last}.",
        remedy=f"Name a point from 1 to {last}.",
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
