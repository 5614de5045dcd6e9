"""Deleting what somebody asked to delete: whole conversations, or the captures of some. Nothing else is ever deleted.

What others need stays: facts that a fork shares, payloads that any fact that is left still names, conversations that
somebody writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import msgspec

from turnwright.journal import leases
from turnwright.journal.database import connect, explained, open_reader
from turnwright.journal.reading import is_pruned
from turnwright.journal.sizing import payloads_in
from turnwright.journal.stored import Naming, Pruned, held_reason, namings
from turnwright.schema.ids import ConversationId, Seq

_BODIES = "SELECT conversation, seq, body, position FROM facts NOT INDEXED WHERE position > ?"
_LEFT_BEHIND = (
    "SELECT p.conversation FROM pruned p WHERE EXISTS (SELECT 1 FROM facts f WHERE f.conversation = p.conversation)"
)
_SHARED_THROUGH = "SELECT coalesce(max(through), 0) FROM prefixes WHERE parent = ?"
_OWN_SIZE = "SELECT sum(length(body) + length(link)) FROM facts WHERE conversation = ? AND seq > ?"
_DELETE = "DELETE FROM facts WHERE conversation = ? AND seq > ? AND position <> ?"
_EMPTY = "UPDATE facts SET body = x'7b7d', landmark = NULL WHERE conversation = ? AND seq > ? AND position = ?"


class Names:
    """Which facts name which payloads, read before the write lock is taken, and completed under it."""

    def __init__(self, path: Path) -> None:
        self.found: list[Naming] = []
        self._position = 0
        with explained(path), closing(open_reader(path)) as connection:
            self.complete(connection)

    def complete(self, connection: apsw.Connection) -> None:
        payloads = payloads_in(connection)
        for conversation, seq, body, position in connection.execute(_BODIES, (self._position,)):
            self.found += namings(conversation, seq, body, payloads)
            self._position = position


def pruning(
    names: Names, asked: Sequence[ConversationId], *, captures: bool, dry_run: bool, host: str, now_ms: int
) -> Callable[[apsw.Connection], Pruned]:
    """The work of one transaction. With `captures`, conversations stay and lose only the bytes of their attempts."""

    def work(connection: apsw.Connection) -> Pruned:
        names.complete(connection)
        connection.execute("SAVEPOINT pruning")
        numbers, kept = _chosen(connection, asked, host, now_ms)
        if captures:
            pruned = _without_captures(connection, numbers, names.found)
        else:
            pruned = _without(connection, numbers, names.found)
        pruned = msgspec.structs.replace(pruned, kept=kept, dry_run=dry_run)
        if dry_run:
            connection.execute("ROLLBACK TO pruning")
        elif pruned.conversations or pruned.payloads:
            what = f"{'captures of ' if captures else ''}{' '.join(pruned.conversations)}"
            connection.execute(
                "INSERT INTO prunings (at, facts, payloads, what) VALUES (?, ?, ?, ?)",
                (now_ms, pruned.facts, pruned.payloads, what),
            )
        return pruned

    return work


def _chosen(
    connection: apsw.Connection, asked: Sequence[ConversationId], host: str, now_ms: int
) -> tuple[dict[int, ConversationId], dict[ConversationId, str]]:
    """By number; and what stays, with the reason."""
    numbers: dict[int, ConversationId] = {}
    kept: dict[ConversationId, str] = {}
    for name in dict.fromkeys(asked):
        number = connection.execute("SELECT number FROM conversations WHERE id = ?", (name,)).get
        if number is None or is_pruned(connection, number):
            raise leases.no_conversation(name)
        holder = leases.holder_of(connection, number, now_ms, host)
        if holder is not None:
            kept[name] = held_reason(holder)
        else:
            numbers[number] = name
    return numbers, kept


def _without(connection: apsw.Connection, numbers: dict[int, ConversationId], names: Iterable[Naming]) -> Pruned:
    facts = fact_bytes = 0
    last = connection.execute("SELECT max(position) FROM facts").get or 0
    remaining: dict[int, Seq] = {}
    left_behind = {number for (number,) in connection.execute(_LEFT_BEHIND)}
    # A fork is younger than what it shares: the youngest goes first, and lets go of it.
    for number in sorted(left_behind | numbers.keys(), reverse=True):
        through = int(connection.execute(_SHARED_THROUGH, (number,)).get)
        size = int(connection.execute(_OWN_SIZE, (number, through)).get or 0)
        remaining[number] = through
        connection.execute(_DELETE, (number, through, last))
        facts, fact_bytes = facts + connection.changes(), fact_bytes + size
        connection.execute(_EMPTY, (number, through, last))
        _let_go(connection, number, keel=last if connection.changes() else None, whole=not through)
    gone = [naming for naming in names if naming.seq > remaining.get(naming.conversation, naming.seq)]
    stay = {naming.sha256 for naming in names if naming.seq <= remaining.get(naming.conversation, naming.seq)}
    payloads, payload_bytes = _delete_payloads(connection, {naming.sha256 for naming in gone} - stay)
    return Pruned(
        conversations=tuple(numbers.values()),
        facts=facts,
        fact_bytes=fact_bytes,
        payloads=payloads,
        payload_bytes=payload_bytes,
    )


def _let_go(connection: apsw.Connection, number: int, *, keel: int | None, whole: bool) -> None:
    """Its number is not used again, and whoever still believes to hold it is refused. Its name goes with the last
    fact: while a fork needs some, it stays, for their hashes are tied to it."""
    connection.execute("INSERT OR REPLACE INTO pruned VALUES (?, ?)", (number, keel))
    connection.execute(
        "UPDATE leases SET generation = generation + 1, expires_at = 0 WHERE conversation = ?", (number,)
    )
    if whole:
        connection.execute("DELETE FROM prefixes WHERE conversation = ?", (number,))
        connection.execute("UPDATE conversations SET id = ? WHERE number = ?", (f"pruned {number}", number))


def _without_captures(connection: apsw.Connection, numbers: Collection[int], names: Sequence[Naming]) -> Pruned:
    gone = {naming.sha256 for naming in names if naming.captured and naming.conversation in numbers}
    stay = {naming.sha256 for naming in names if not (naming.captured and naming.conversation in numbers)}
    connection.executemany("INSERT OR IGNORE INTO forgotten VALUES (?)", ((bytes.fromhex(one),) for one in gone - stay))
    payloads, payload_bytes = _delete_payloads(connection, gone - stay)
    return Pruned(payloads=payloads, payload_bytes=payload_bytes)


def _delete_payloads(connection: apsw.Connection, names: Iterable[str]) -> tuple[int, int]:
    count = size = 0
    for name in names:
        key = (bytes.fromhex(name),)
        size += connection.execute("SELECT length(data) FROM blobs WHERE sha256 = ?", key).get or 0
        connection.execute("DELETE FROM blobs WHERE sha256 = ?", key)
        count += connection.changes()
    return count, size


def compact(path: Path) -> None:
    """Give the room of what was deleted back to the disk. Blocking; others who write wait meanwhile."""
    with explained(path), closing(connect(path, flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        connection.execute("VACUUM")


def nobody_writes(connection: apsw.Connection, now_ms: int, host: str) -> bool:
    numbers: list[Any] = connection.execute(
        "SELECT conversation FROM leases WHERE expires_at > ?", (now_ms,)
    ).fetchall()
    return not any(leases.holder_of(connection, number, now_ms, host) for (number,) in numbers)
