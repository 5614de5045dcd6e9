"""The index of words: a file beside the journal's own, brought up to what the journal holds when somebody searches.

Appends know nothing of it and cost nothing more. It holds words and places and nothing that the journal does not, so it
is thrown away and made anew whenever it is not what it should be: removed, damaged, of another version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import apsw

from turnwright.journal.database import DATABASE
from turnwright.journal.reading import PAGE_OWN, Reader
from turnwright.journal.records import Hit
from turnwright.journal.search.said import said
from turnwright.journal.search.words import Wanted, excerpt, words
from turnwright.journal.transactions import transaction
from turnwright.schema.errors import JournalDamaged
from turnwright.schema.facts import Recorded
from turnwright.schema.ids import ConversationId

Answer = TypeVar("Answer")

INDEX = "search.db"
VERSION = 1
BUSY_MS = 60_000
IN_MEMORY = ":memory:"

_SCHEMA = f"""
    CREATE TABLE IF NOT EXISTS reached (
        conversation TEXT PRIMARY KEY,
        number INTEGER NOT NULL UNIQUE,
        through INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS places (
        place INTEGER PRIMARY KEY,
        number INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS places_by_number ON places (number);
    CREATE VIRTUAL TABLE IF NOT EXISTS words
        USING fts5(line, content='', contentless_delete=1, tokenize='ascii');
    PRAGMA user_version={VERSION};
"""
_FIND = """
    SELECT conversation, seq FROM words JOIN places ON place = words.rowid JOIN reached USING (number)
    WHERE words MATCH ? ORDER BY at DESC, conversation, seq DESC
"""


class Reached(NamedTuple):
    """How far the index has read a conversation, under which number of its own."""

    number: int
    through: int


def search(folder: Path, asked: Wanted, limit: int, conversation_id: ConversationId | None) -> list[Hit]:
    """Blocking. Newest first."""
    with closing(Reader(folder / DATABASE)) as reader:
        return _with_index(folder, lambda index: _found(index, reader, asked, limit, conversation_id), reader)


def rebuild(folder: Path) -> int:
    """Blocking. How many facts it holds now."""
    _remove(folder)
    with closing(Reader(folder / DATABASE)) as reader:
        return _with_index(folder, lambda index: int(index.execute("SELECT count(*) FROM places").get or 0), reader)


def _with_index(folder: Path, ask: Callable[[apsw.Connection], Answer], reader: Reader) -> Answer:
    path = folder / INDEX
    for place in (str(path), str(path), IN_MEMORY):
        try:
            with closing(_opened(place)) as index:
                _catch_up(index, reader)
                return ask(index)
        except (apsw.CorruptError, apsw.NotADBError):
            _remove(folder)
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, apsw.FullError, apsw.IOError):
            # Where nothing can be kept, it is made for this one question.
            continue
    raise JournalDamaged(f"The index {path} can be neither read nor made anew.", remedy=f"Remove {path}.")


def _remove(folder: Path) -> None:
    for name in (INDEX, f"{INDEX}-wal", f"{INDEX}-shm"):
        with suppress(OSError):
            (folder / name).unlink()


def _opened(place: str) -> apsw.Connection:
    index = apsw.Connection(place, vfs="unix")
    try:
        index.set_busy_timeout(BUSY_MS)
        # What a power cut takes is read again; only the order of writes must hold, and the log keeps that.
        index.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL").fetchall()
        if index.pragma("user_version") not in (0, VERSION):
            raise apsw.NotADBError("an index of another version")
        if index.pragma("user_version") == 0:
            with transaction(index):
                index.execute(_SCHEMA)
            if place != IN_MEMORY:
                Path(place).chmod(0o600)
    except BaseException:
        index.close()
        raise
    return index


def _catch_up(index: apsw.Connection, reader: Reader) -> None:
    """Page by page, each committed: whoever searches meanwhile goes on from there."""
    there = dict(reader.ends())
    known = {name: Reached(*rest) for name, *rest in index.execute("SELECT * FROM reached")}
    for name, reached in known.items():
        if there.get(name, 0) < reached.through:
            with transaction(index):
                _forget(index, name)
    for name, last in there.items():
        while True:
            reached = known.get(name, Reached(0, 0))
            if reached.through >= last or (read := _page(index, reader, name)) is None:
                break
            known[name] = read


def _page(index: apsw.Connection, reader: Reader, name: ConversationId) -> Reached | None:
    """None where there is no more."""
    with transaction(index):
        row = index.execute("SELECT number, through FROM reached WHERE conversation = ?", (name,)).get
        if row is None:
            number, through = 1 + int(index.execute("SELECT max(number) FROM reached").get or 0), 0
            index.execute("INSERT INTO reached VALUES (?, ?, ?)", (name, number, through))
        else:
            number, through = row
        facts, last = reader.own(name, through, PAGE_OWN)
        if last == through:
            return None
        for recorded in facts:
            _add(index, reader, number, recorded)
        index.execute("UPDATE reached SET through = ? WHERE conversation = ?", (last, name))
    return Reached(number, last)


def _add(index: apsw.Connection, reader: Reader, number: int, recorded: Recorded) -> None:
    found = said(recorded.fact, reader.blob_or_none)
    if found is None:
        return
    index.execute("INSERT INTO words (line) VALUES (?)", (" ".join(words(found[1])),))
    place = index.last_insert_rowid()
    index.execute("INSERT INTO places VALUES (?, ?, ?, ?)", (place, number, recorded.seq, recorded.at))


def _forget(index: apsw.Connection, name: ConversationId) -> None:
    [number] = index.execute("SELECT number FROM reached WHERE conversation = ?", (name,)).fetchone() or [None]
    index.execute("DELETE FROM words WHERE rowid IN (SELECT place FROM places WHERE number = ?)", (number,))
    index.execute("DELETE FROM places WHERE number = ?; DELETE FROM reached WHERE number = ?", (number, number))


def _found(
    index: apsw.Connection, reader: Reader, asked: Wanted, limit: int, conversation_id: ConversationId | None
) -> list[Hit]:
    hits: list[Hit] = []
    for hit in _hits(index, reader, asked, conversation_id):
        hits.append(hit)
        if len(hits) == limit:
            break
    return hits


def _hits(
    index: apsw.Connection, reader: Reader, asked: Wanted, conversation_id: ConversationId | None
) -> Iterator[Hit]:
    within = None if conversation_id is None else reader.shown_in(conversation_id)
    for name, seq in index.execute(_FIND, (_expression(asked),)):
        if within is not None and seq not in within.get(name, range(0)):
            continue
        facts, _ = reader.own(name, seq - 1, 1)
        # A record that was damaged since is left out, as it is everywhere.
        if facts and facts[0].seq == seq and (found := said(facts[0].fact, reader.blob_or_none)):
            yield Hit(
                conversation_id=conversation_id or name,
                seq=seq,
                at=facts[0].at,
                said_by=found[0],
                excerpt=excerpt(found[1], asked),
            )


def _expression(asked: Wanted) -> str:
    """Words are letters and digits, so nothing in them can be taken for an operator."""
    terms = (f'"{" ".join(phrase.words)}"{" *" if phrase.prefix else ""}' for phrase in asked.phrases)
    return " AND ".join(terms)
