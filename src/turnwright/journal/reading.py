"""Reads, on a connection of their own. A damaged record costs that record."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from turnwright.journal import leases
from turnwright.journal.database import explained, open_reader
from turnwright.journal.records import ConversationSummary
from turnwright.journal.rows import COMPACTED, OPENED, TURN_ENDED, TURN_STARTED, Row, fault_in, read_row
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
from turnwright.schema.errors import InputError, JournalDamaged
from turnwright.schema.facts import ContextCompacted, Recorded
from turnwright.schema.ids import ConversationId, Seq

_COLUMNS = "seq, at, schema_version, landmark, body, link"
_AFTER = f"SELECT {_COLUMNS} FROM facts WHERE conversation = ? AND seq > ? ORDER BY seq LIMIT ?"
_BEFORE = f"SELECT {_COLUMNS} FROM facts WHERE conversation = ? AND seq < ? ORDER BY seq DESC LIMIT ?"
_AT_POSITION = f"SELECT {_COLUMNS} FROM facts WHERE position = ? AND conversation = ?"
_LANDMARKS = f"SELECT {_COLUMNS} FROM facts WHERE conversation = ? AND landmark = ? AND seq <= ? ORDER BY seq"
_CONVERSATIONS = """
    SELECT position, number, id, seq, at FROM conversations
    JOIN facts ON conversation = number
        AND seq = (SELECT max(seq) FROM facts WHERE conversation = conversations.number)
    WHERE number BETWEEN ? AND ? {kept} ORDER BY position DESC LIMIT ?
"""
_KEPT = "AND number NOT IN (SELECT conversation FROM pruned)"
PAGE_OWN = 1_000


_PREFIX = "SELECT parent, id, through FROM prefixes JOIN conversations ON number = parent WHERE conversation = ?"


def stretches_of(connection: apsw.Connection, number: int, conversation_id: ConversationId) -> list[Stretch]:
    """What a conversation is made of, oldest first: its own facts, and before them those that it shares."""
    found: list[Stretch] = []
    through = END
    # A database that is only read may be older than forks.
    while (under := connection.execute(_PREFIX, (number,)).get if _knows_forks(connection) else None) is not None:
        parent, parent_id, shared = under
        found.append(Stretch(number, conversation_id, shared, through))
        number, conversation_id, through = parent, parent_id, shared
    found.append(Stretch(number, conversation_id, 0, through))
    return found[::-1]


def is_pruned(connection: apsw.Connection, number: int) -> bool:
    """What of it a fork shares may still be there."""
    if not knows_pruning(connection):
        return False
    return connection.execute("SELECT 1 FROM pruned WHERE conversation = ?", (number,)).get is not None


def is_forgotten(connection: apsw.Connection, sha256: str) -> bool:
    if not knows_pruning(connection):
        return False
    return connection.execute("SELECT 1 FROM forgotten WHERE sha256 = ?", (bytes.fromhex(sha256),)).get is not None


def knows_pruning(connection: apsw.Connection) -> bool:
    """A database that is only read may be older than that, too."""
    return connection.table_exists("main", "pruned")


def _knows_forks(connection: apsw.Connection) -> bool:
    return connection.table_exists("main", "prefixes")


class Reader:
    """Blocking; used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: apsw.Connection | None = None

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    @property
    def _connection(self) -> apsw.Connection:
        if self._opened is None:
            self._opened = open_reader(self._path)
        return self._opened

    def check(self) -> None:
        """Raises where it cannot be read at all."""
        _ = self._connection

    def since(self, conversation_id: ConversationId, seq: Seq, limit: int) -> list[Read]:
        found: list[Read] = []
        for stretch in self._stretches(conversation_id):
            if seq < stretch.through and len(found) < limit:
                reads = self._after(stretch, max(seq, stretch.after), limit - len(found))
                found += shown_as(conversation_id, stretch, reads)
        return found

    def before(self, conversation_id: ConversationId, seq: Seq, limit: int) -> list[Read]:
        found: list[Read] = []
        for stretch in reversed(self._stretches(conversation_id)):
            if seq > stretch.after + 1 and len(found) < limit:
                reads = self._up_to(stretch, min(seq, stretch.through + 1), limit - len(found))
                found[:0] = shown_as(conversation_id, stretch, reads)
        return found

    def _after(self, stretch: Stretch, seq: Seq, limit: int) -> list[Read]:
        number, owner, _, through = stretch
        ask = min(limit, through - seq)
        try:
            rows = self._rows(_AFTER, number, seq, ask)
        except (apsw.CorruptError, apsw.IOError):
            rows = [row for row in self._salvaged(number, owner) if row.seq > seq][:ask]
        reads = judged(owner, (row for row in rows if row.seq <= through), seq + 1)
        if through != END and len(rows) < ask:
            last = reads[-1].seq if reads else seq
            reads += missing(owner, last + 1, through)
        return reads

    def _up_to(self, stretch: Stretch, seq: Seq, limit: int) -> list[Read]:
        number, owner, after, _ = stretch
        try:
            rows = self._rows(_BEFORE, number, seq, limit)[::-1]
        except (apsw.CorruptError, apsw.IOError):
            rows = [row for row in self._salvaged(number, owner) if row.seq < seq][-limit:]
        rows = [row for row in rows if row.seq > after]
        return judged(owner, rows, rows[0].seq if rows else seq)

    def opening(self, conversation_id: ConversationId) -> tuple[list[Read], Seq]:
        """What stands before the cut and is needed all the same, and the seq after which everything is."""
        stretches = self._stretches(conversation_id)
        for stretch in reversed(stretches):
            try:
                compactions = self._landmarks(stretch, COMPACTED, "DESC", 3)
            except (apsw.CorruptError, apsw.IOError):
                compactions = []
            for row in compactions:
                match read_row(stretch.owner, row):
                    case Recorded(fact=ContextCompacted(through_seq=through)) if 0 < through < row.seq:
                        firsts = first_facts(stretches, through)
                        return [read for seq in firsts for read in self.since(conversation_id, seq - 1, 1)], through
        return [], 0

    def blob(self, sha256: str) -> bytes:
        with explained(self._path):
            row = self._connection.execute(
                "SELECT compressed, data FROM blobs WHERE sha256 = ?", (bytes.fromhex(sha256),)
            ).get
            pruned = row is None and is_forgotten(self._connection, sha256)
        if pruned:
            raise payload_pruned(sha256)
        return opened_blob(sha256, row, str(self._path))

    def blob_or_none(self, sha256: str) -> bytes | None:
        """For whoever goes on without it."""
        with suppress(InputError, JournalDamaged):
            return self.blob(sha256)
        return None

    def ends(self) -> list[tuple[ConversationId, Seq]]:
        """Every conversation, and the seq that it ends with."""
        with explained(self._path):
            return [(name, seq) for _, _, name, seq, _ in self._ends(2**62)]

    def shown_in(self, conversation_id: ConversationId) -> dict[ConversationId, range]:
        """Whose facts it shows, and which."""
        return {each.owner: range(each.after + 1, each.through + 1) for each in self._stretches(conversation_id)}

    def own(self, conversation_id: ConversationId, seq: Seq, limit: int) -> tuple[list[Recorded], Seq]:
        """What a conversation owns after `seq`, without what it shares, and how far was looked."""
        *_, own = self._stretches(conversation_id)
        reads = self._after(own, max(seq, own.after), limit)
        recorded, _ = parted(reads)
        return recorded, reads[-1].seq if reads else seq

    def conversations(self, limit: int, now_ms: int, host: str) -> list[ConversationSummary]:
        with explained(self._path):
            return [
                self._summary(number, conversation_id, last_seq, last_at, now_ms, host)
                for _, number, conversation_id, last_seq, last_at in self._ends(limit)
            ]

    def _ends(self, limit: int) -> list[Any]:
        """Where each conversation ends, latest first. One that cannot be read does not hide the others."""
        execute = self._connection.execute
        query = _CONVERSATIONS.format(kept=_KEPT if knows_pruning(self._connection) else "")
        try:
            return execute(query, (0, 2**62, limit)).fetchall()
        except (apsw.CorruptError, apsw.IOError):
            ends: list[Any] = []
            for number in range(1, (execute("SELECT max(number) FROM conversations").get or 0) + 1):
                with suppress(apsw.CorruptError, apsw.IOError):
                    ends += execute(query, (number, number, 1)).fetchall()
            return sorted(ends, reverse=True)[:limit]

    def _summary(
        self, number: int, conversation_id: ConversationId, last_seq: Seq, last_at: int, now_ms: int, host: str
    ) -> ConversationSummary:
        stretches = stretches_of(self._connection, number, conversation_id)

        def landmark(kind: int, order: str = "ASC") -> Recorded | None:
            for stretch in stretches if order == "ASC" else reversed(stretches):
                try:
                    rows = self._landmarks(stretch, kind, order, 1)
                except (apsw.CorruptError, apsw.IOError):
                    return None
                if rows:
                    read = read_row(stretch.owner, rows[0])
                    return read if isinstance(read, Recorded) else None
            return None

        return summary(
            conversation_id,
            opened=landmark(OPENED, "DESC"),
            first_turn=landmark(TURN_STARTED),
            last_turn=landmark(TURN_STARTED, "DESC"),
            last_end=landmark(TURN_ENDED, "DESC"),
            last_seq=last_seq,
            last_at=last_at,
            held_by=leases.holder_of(self._connection, number, now_ms, host),
        )

    def _number(self, conversation_id: ConversationId) -> int:
        with explained(self._path):
            found = self._connection.execute("SELECT number FROM conversations WHERE id = ?", (conversation_id,)).get
            gone = found is not None and is_pruned(self._connection, found)
        if found is None or gone:
            raise leases.no_conversation(conversation_id)
        return int(found)

    def _rows(self, query: str, *values: int) -> list[Row]:
        return [Row(*row) for row in self._connection.execute(query, values)]

    def _stretches(self, conversation_id: ConversationId) -> list[Stretch]:
        number = self._number(conversation_id)
        with explained(self._path):
            return stretches_of(self._connection, number, conversation_id)

    def _landmarks(self, stretch: Stretch, kind: int, order: str, limit: int) -> list[Row]:
        return self._rows(f"{_LANDMARKS} {order} LIMIT {limit}", stretch.number, kind, stretch.through)

    def _salvaged(self, number: int, conversation_id: ConversationId) -> list[Row]:
        """Every sound row that can still be reached, one by one and without an index."""
        execute = self._connection.execute
        rows: list[Row] = []
        # With this check on, one bad cell makes its whole page unreadable.
        execute("PRAGMA cell_size_check=OFF").fetchall()
        try:
            for position in range(1, self._last_position() + 1):
                try:
                    rows += (Row(*row) for row in execute(_AT_POSITION, (position, number)))
                except (apsw.CorruptError, apsw.IOError):
                    continue  # Found missing by whoever counts the rows.
        finally:
            execute("PRAGMA cell_size_check=ON").fetchall()
        return sorted(row for row in rows if not fault_in(conversation_id, row))

    def _last_position(self) -> int:
        for order in ("facts NOT INDEXED", "facts INDEXED BY facts_by_seq"):
            try:
                return int(self._connection.execute(f"SELECT max(position) FROM {order}").get or 0)
            except (apsw.CorruptError, apsw.IOError):
                continue
        raise JournalDamaged(
            f"The journal {self._path} cannot be read to its end.", remedy="Restore it from a backup if you have one."
        )
