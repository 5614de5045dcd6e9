"""Is every byte what was written? Looks at pages, log, rows, payloads and the mark, and reports everything it finds.

The raw files are read through SQLite's own file layer, which keeps the locks of this process's connections: verifying a
journal that is in use is safe.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec

from turnwright.journal import losses
from turnwright.journal.chain import chain_findings
from turnwright.journal.database import DATABASE, LOG, PAGE_BYTES, explain, open_reader, register_checksums
from turnwright.journal.log import HEADER_BYTES, Walk, walk
from turnwright.journal.marks import MARK, Mark, read_mark
from turnwright.journal.reading import knows_pruning, stretches_of
from turnwright.journal.records import Finding, Place, Report
from turnwright.journal.rows import HASH_BYTES, NO_HASH, Row
from turnwright.journal.stretches import unpacked
from turnwright.schema.errors import InputError, JournalError, JournalTooNew

LOCK_PAGE = 0x40000000 // PAGE_BYTES + 1
"""SQLite never writes the page that holds its lock bytes."""
READ_AGAIN = 3
READ_AGAIN_S = 0.01


def verify(folder: str | os.PathLike[str]) -> Report:
    """Blocking. A journal that is being written may be verified too."""
    place = Path(folder).absolute()
    if not place.is_dir():
        raise InputError(f"There is no journal folder {place}.", remedy="Check the path, or run something first.")
    return _Verification(place).run()


class _Verification:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / DATABASE
        self._findings: list[Finding] = []
        self._report = Report(folder=str(folder))
        self._blobs: set[str] = set()
        self._prunes = False

    def run(self) -> Report:
        # The mark comes first: it never leads the database, so what it says must be found there later.
        mark = self._mark()
        if self._path.exists():
            self._look(mark)
        elif mark.facts or mark.changes:
            self._found("database", f"{self._path} is gone; {mark.facts} facts had been acknowledged")
        return msgspec.structs.replace(self._report, findings=tuple(self._findings))

    def _look(self, mark: Mark) -> None:
        connection = self._connection()
        try:
            if connection is not None:
                # A snapshot keeps the log from being emptied under us.
                with self._errors_found("database"):
                    connection.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
            log = self._log()
            self._pages(log, mark)
            if connection is not None:
                self._structure(connection)
                self._payloads(connection)
                self._records(connection)
                self._against_mark(connection, mark)
        finally:
            if connection is not None:
                connection.close()

    def _found(self, place: Place, message: str, conversation_id: str | None = None, seq: int | None = None) -> None:
        self._findings.append(Finding(place=place, message=message, conversation_id=conversation_id, seq=seq))

    @contextmanager
    def _errors_found(self, place: Place, what: str = "") -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            self._found(place, f"{what}{explain(error, self._path)}")

    def _connection(self) -> apsw.Connection | None:
        try:
            return open_reader(self._path)
        except JournalTooNew:
            raise
        except JournalError as error:
            self._found("database", error.args[0])
            return None

    def _mark(self) -> Mark:
        path = self._folder / MARK
        if not path.exists():
            if self._path.exists():
                self._found("mark", f"{path} is missing, so a cut tail would not be seen")
            return Mark()
        mark = read_mark(path)
        # The mark is made before the database: an empty one without a database is a beginning that was cut off.
        begun = self._path.exists() or path.stat().st_size > 0
        if mark.bad_slots and begun:
            self._found("mark", f"{path} is not what was written, in {mark.bad_slots} places")
        return mark

    def _log(self) -> Walk:
        path = self._folder / LOG
        if not path.exists():
            return Walk()
        with _raw(path, apsw.SQLITE_OPEN_WAL) as file:
            log = walk(_read_in_one(file))
        if log.fault:
            self._found("log", f"{path}: {log.fault}")
        self._report = msgspec.structs.replace(self._report, log_frames=log.frames)
        return log

    def _pages(self, log: Walk, mark: Mark) -> None:
        register_checksums()
        judge = apsw.Connection(":memory:")
        with _raw(self._path, apsw.SQLITE_OPEN_MAIN_DB) as file:
            size = file.xFileSize()
            in_file = size // PAGE_BYTES
            # A checkpoint that was cut short leaves pages half written; the log still holds them whole.
            excused = log.pages if mark.checkpointing else frozenset()
            if size % PAGE_BYTES and in_file + 1 not in excused:
                self._found("database", f"{self._path} ends within a page, after {size} bytes")
            header = file.xRead(100, 0) if size >= 100 else bytes(100)
            total = log.pages_total or int.from_bytes(header[28:32], "big")
            if in_file > total:
                self._found("database", f"{self._path} has {in_file - total} pages that nothing accounts for")
            cut_off = total - in_file - sum(page > in_file for page in log.pages)
            if cut_off > 0:
                self._found("page", f"{cut_off} pages of {self._path} are cut off")
            for page in set(_unsound(judge, file, in_file)) - excused:
                newer = "; the log holds a newer one, so nothing is lost" if page in log.pages else ""
                self._found("page", f"page {page} of {self._path} is not what was written{newer}")
        judge.close()
        self._report = msgspec.structs.replace(self._report, pages=in_file)

    def _structure(self, connection: apsw.Connection) -> None:
        with self._errors_found("database", "its structure cannot be checked: "):
            for (message,) in connection.execute("PRAGMA integrity_check(100)"):
                if message != "ok":
                    self._found("database", f"structure: {message}")
        with self._errors_found("database"):
            for (message,) in connection.execute("SELECT what FROM losses ORDER BY number"):
                self._found("log", message)

    def _payloads(self, connection: apsw.Connection) -> None:
        with self._errors_found("blob", "payloads cannot all be read: "):
            for sha256, size, compressed, data in connection.execute(
                "SELECT sha256, size_bytes, compressed, data FROM blobs"
            ):
                content = unpacked(compressed, data)
                if content is None or hashlib.sha256(content).digest() != sha256 or len(content) != size:
                    self._found("blob", f"payload {sha256.hex()} is not what was written")
                self._blobs.add(sha256.hex())
            self._report = msgspec.structs.replace(self._report, blobs=len(self._blobs))
            self._prunes = knows_pruning(connection)
            if self._prunes:
                self._blobs |= {sha256.hex() for (sha256,) in connection.execute("SELECT sha256 FROM forgotten")}

    def _records(self, connection: apsw.Connection) -> None:
        conversations = facts = 0
        found: list[Any] = []
        with self._errors_found("database", "conversations cannot all be read: "):
            found.extend(connection.execute("SELECT number, id FROM conversations"))
        for number, conversation_id in found:
            count = 0
            with self._errors_found("record", f"{conversation_id} cannot be read to its end: "):
                first, before = self._beginning(connection, number, conversation_id)
                rows = _rows(connection, number, self._prunes)
                for found_in_row in chain_findings(conversation_id, rows, first, before, self._blobs):
                    self._findings += found_in_row
                    count += 1
            conversations += count > 0
            facts += count
        with self._errors_found("database"):
            last, held = connection.execute("SELECT max(position), count(*) FROM facts NOT INDEXED").get
            pruned = connection.execute("SELECT coalesce(sum(facts), 0) FROM prunings").get if self._prunes else 0
            keels = connection.execute("SELECT count(keel) FROM pruned").get if self._prunes else 0
            if held + pruned != (last or 0) or held != facts + keels:
                without = f"{pruned} were pruned, " if pruned else ""
                message = f"{last or 0} facts were written, {without}{held} are held and {facts} can be reached"
                self._found("database", message)
        self._report = msgspec.structs.replace(self._report, conversations=conversations, facts=facts)

    def _beginning(self, connection: apsw.Connection, number: int, conversation_id: str) -> tuple[int, bytes]:
        """The first seq of its own and what that follows: nothing, or the last fact that a fork shares."""
        *shared, own = stretches_of(connection, number, conversation_id)
        if not shared:
            return 1, NO_HASH
        parent, owner, _, through = shared[-1]
        row = connection.execute("SELECT link FROM facts WHERE conversation = ? AND seq = ?", (parent, through)).get
        if row is None:
            self._found(
                "record",
                f"{conversation_id} shares {owner} up to seq {through}, which is gone",
                conversation_id,
                through,
            )
            first = connection.execute(
                "SELECT link FROM facts WHERE conversation = ? AND seq = ?", (number, through + 1)
            ).get
            row = first[:HASH_BYTES] if first else NO_HASH
        return own.after + 1, row[-HASH_BYTES:]

    def _against_mark(self, connection: apsw.Connection, mark: Mark) -> None:
        with self._errors_found("database"):
            what = losses.lost(connection, mark)
            if what is not None:
                self._found("log", what)


def _rows(connection: apsw.Connection, number: int, prunes: bool) -> Iterator[Row]:
    keel = "AND position IS NOT (SELECT keel FROM pruned WHERE pruned.conversation = facts.conversation)"
    query = (
        "SELECT seq, at, schema_version, landmark, body, link FROM facts "
        f"WHERE conversation = ? {keel if prunes else ''} ORDER BY seq"
    )
    return (Row(*found) for found in connection.execute(query, (number,)))


@contextmanager
def _raw(path: Path, kind: int) -> Iterator[apsw.VFSFile]:
    file = apsw.VFSFile("unix", str(path), [kind | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        yield file
    finally:
        file.xClose()


def _unsound(judge: apsw.Connection, file: apsw.VFSFile, pages: int) -> list[int]:
    """Looked at again before they are called damaged: a checkpoint may be writing a page at that moment."""
    suspects = [page for page in range(1, pages + 1) if page != LOCK_PAGE]
    for _ in range(READ_AGAIN):
        suspects = [page for page in suspects if not _is_sound(judge, file, page)]
        if not suspects:
            break
        threading.Event().wait(READ_AGAIN_S)
    return suspects


def _is_sound(judge: apsw.Connection, file: apsw.VFSFile, page: int) -> bool:
    content = file.xRead(PAGE_BYTES, (page - 1) * PAGE_BYTES)
    return bool(judge.execute("SELECT verify_checksum(?)", (content,)).get)


def _read_in_one(file: apsw.VFSFile) -> bytes:
    """A log that a writer has begun anew while it was read would be half of the one and half of the other: its head,
    which is written before any frame, then tells. A snapshot of a database whose log is all copied does not prevent
    that."""
    while True:
        size = file.xFileSize()
        content = file.xRead(size, 0) if size else b""
        head_size = min(file.xFileSize(), HEADER_BYTES)
        if content[:HEADER_BYTES] == (file.xRead(head_size, 0) if head_size else b""):
            return content
