"""How much of the file is what. A row that cannot be read costs itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from turnwright.journal.database import DATABASE, LOG, explained, open_reader
from turnwright.journal.records import ConversationSummary
from turnwright.journal.search.index import INDEX
from turnwright.journal.stored import Payload, Stored, StoredConversation, Tally, namings

_BODIES = "SELECT position, conversation, seq, body, length(body) + length(link) FROM facts"


def stored(folder: Path, listed: list[ConversationSummary]) -> Stored:
    """Blocking. `listed` are the conversations there are, as they are told about elsewhere."""
    path = folder / DATABASE
    connection = open_reader(path)
    try:
        with explained(path):
            # One look: what is written meanwhile is not counted.
            connection.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
            return _measured(connection, folder, listed)
    finally:
        connection.close()


def _measured(connection: apsw.Connection, folder: Path, listed: list[ConversationSummary]) -> Stored:
    payloads = payloads_in(connection)
    tally, sizes = Tally(payloads), dict[int, list[int]]()
    for conversation, seq, body, size in _rows(connection):
        counted = sizes.setdefault(conversation, [0, 0])
        counted[0] += 1
        counted[1] += size
        tally.add(namings(conversation, seq, body, payloads))
    named: list[Any] = connection.execute("SELECT id, number FROM conversations").fetchall()
    numbers: dict[str, int] = dict(named)
    shared = _shared(connection)
    facts = sum(count for count, _ in sizes.values())
    page_bytes = int(connection.pragma("page_size"))
    return Stored(
        place=str(folder),
        total_bytes=sum(_size(folder / name) for name in (DATABASE, LOG, INDEX, f"{INDEX}-wal")),
        free_bytes=int(connection.pragma("freelist_count")) * page_bytes,
        log_bytes=_size(folder / LOG),
        search_bytes=_size(folder / INDEX) + _size(folder / f"{INDEX}-wal"),
        facts=facts,
        fact_bytes=sum(size for _, size in sizes.values()),
        content_bytes=sum(payload.size_bytes for payload in payloads.values()),
        unreadable=max(0, _held(connection) - facts),
        conversations=tuple(
            StoredConversation(
                id=each.id,
                title=each.title or each.first_text,
                last_at=each.last_at,
                facts=sizes.get(own, (0, 0))[0],
                fact_bytes=sizes.get(own, (0, 0))[1],
                shared_facts=shared.get(own, 0),
                held_by=each.held_by,
                **tally.of(own),
            )
            for each in listed
            if (own := numbers.get(each.id)) is not None
        ),
        **tally.whole(),
    )


def payloads_in(connection: apsw.Connection) -> dict[str, Payload]:
    query = "SELECT sha256, size_bytes, length(data) FROM blobs"
    return {sha256.hex(): Payload(size, stored_bytes) for sha256, size, stored_bytes in connection.execute(query)}


def _rows(connection: apsw.Connection) -> Iterator[Any]:
    """Behind damage, one by one: what cannot be reached is missing from the sum."""
    reached = 0
    try:
        for position, *row in connection.execute(f"{_BODIES} ORDER BY position"):
            yield row
            reached = position
        return
    except (apsw.CorruptError, apsw.IOError):
        last = connection.execute("SELECT max(position) FROM facts INDEXED BY facts_by_seq").get or 0
    for position in range(reached + 1, last + 1):
        with suppress(apsw.CorruptError, apsw.IOError):
            yield from (row for _, *row in connection.execute(f"{_BODIES} WHERE position = ?", (position,)))


def _held(connection: apsw.Connection) -> int:
    with suppress(apsw.CorruptError, apsw.IOError):
        return int(connection.execute("SELECT count(*) FROM facts INDEXED BY facts_by_seq").get or 0)
    return 0


def _shared(connection: apsw.Connection) -> dict[int, int]:
    query = """
        SELECT parent, (SELECT count(*) FROM facts WHERE conversation = parent AND seq <= max(through))
        FROM prefixes GROUP BY parent
    """
    if not connection.table_exists("main", "prefixes"):
        return {}
    counted: list[Any] = connection.execute(query).fetchall()
    return dict(counted)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
