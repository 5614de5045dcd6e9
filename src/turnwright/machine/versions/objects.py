"""Where versions are kept: one SQLite file of objects by hash, shared by all workspaces and processes of a user.

It is not the journal: a power cut may cost the last version, but never make a wrong one of it, because an object is
what its hash says.
"""

from __future__ import annotations

import fcntl
import os
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import msgspec

from turnwright.machine.versions.trees import Digest, Folder, Leaf, decode_folder, digest_of, encode_folder
from turnwright.schema.errors import InputError, MachineError

COMPRESS_FROM_BYTES = 256
_BUSY_MS = 10_000

_PRAGMAS = ("auto_vacuum=INCREMENTAL", "journal_mode=WAL", "synchronous=NORMAL", "mmap_size=0", "trusted_schema=OFF")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    sha256 BLOB PRIMARY KEY, compressed INTEGER NOT NULL, data BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS versions (
    position INTEGER PRIMARY KEY, workspace TEXT NOT NULL, tree BLOB NOT NULL, saved_at INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS known (
    workspace TEXT NOT NULL, folder TEXT NOT NULL, seen BLOB NOT NULL, PRIMARY KEY (workspace, folder)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS undone (
    position INTEGER PRIMARY KEY, workspace TEXT NOT NULL, move BLOB NOT NULL
) STRICT;
"""


class Move(msgspec.Struct, frozen=True):
    """An undo: what the workspace was, what it became, and where the conversation went."""

    left: Digest
    reached: Digest
    conversation: str
    fork: str
    """Empty where the conversation stayed as it was."""
    mark: str = ""
    """Tells it from every other one."""


class Objects:
    """The open file. Used from one thread at a time; `lock` sees to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.RLock()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._explained():
            self._connection = apsw.Connection(str(path))
            path.chmod(0o600)
            self._connection.set_busy_timeout(_BUSY_MS)
            for pragma in _PRAGMAS:
                self._connection.execute(f"PRAGMA {pragma}").fetchall()
            self._connection.execute(_SCHEMA).fetchall()
            self._gate = os.open(path.with_name(path.name + "-gate"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def close(self) -> None:
        with self.lock:
            self._connection.close()
            os.close(self._gate)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Around everything that puts objects: until their version is kept, only this holds off whoever prunes."""
        with self.lock:
            fcntl.flock(self._gate, fcntl.LOCK_SH)
            try:
                yield
            finally:
                fcntl.flock(self._gate, fcntl.LOCK_UN)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction; what fails leaves nothing."""
        with self.lock, self._explained(), self._connection:
            yield

    # Objects

    def put(self, data: bytes) -> Digest:
        digest = digest_of(data)
        if self._connection.execute("SELECT 1 FROM objects WHERE sha256 = ?", (digest,)).get is None:
            small = zlib.compress(data, 1) if len(data) >= COMPRESS_FROM_BYTES else data
            compressed = len(small) < len(data)
            row = (digest, int(compressed), small if compressed else data)
            self._connection.execute("INSERT OR IGNORE INTO objects VALUES (?, ?, ?)", row)
        return digest

    def put_folder(self, folder: Folder) -> Digest:
        return self.put(encode_folder(folder))

    def get(self, digest: Digest) -> bytes:
        with self.lock, self._explained():
            row = self._connection.execute(
                "SELECT compressed, data FROM objects WHERE sha256 = ?", (digest,)
            ).fetchone()
        if row is None:
            raise InputError(
                f"The version that holds {digest.hex()[:12]} is no longer kept in {self.path}.",
                remedy="Old versions are let go when the store is full: see versions.bytes_max.",
            )
        data = zlib.decompress(row[1]) if row[0] else row[1]
        if digest_of(data) != digest:
            raise MachineError(f"{self.path} is damaged: the object {digest.hex()[:12]} is not what was written.")
        return data

    def folder(self, digest: Digest) -> Folder:
        return decode_folder(self.get(digest))

    def content(self, leaf: Leaf) -> Iterator[bytes]:
        for piece in leaf.content:
            yield self.get(piece)

    # Versions

    def keep(self, workspace: str, tree: Digest, saved_at: int) -> None:
        last = self._connection.execute(
            "SELECT tree FROM versions WHERE workspace = ? ORDER BY position DESC LIMIT 1", (workspace,)
        ).get
        if last != tree:
            row = (workspace, tree, saved_at)
            self._connection.execute("INSERT INTO versions (workspace, tree, saved_at) VALUES (?, ?, ?)", row)

    def size_bytes(self) -> int:
        with self.lock, self._explained():
            pages: int = self._connection.pragma("page_count") - self._connection.pragma("freelist_count")
            return pages * int(self._connection.pragma("page_size"))

    def prune(self, bytes_max: int) -> int:
        """Let the oldest versions go until the rest fits into nine tenths of the bound. How many went; never the last
        one of a workspace, which the next save builds on. None while another process saves."""
        with self.lock:
            try:
                fcntl.flock(self._gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return 0
            try:
                return self._prune(bytes_max)
            finally:
                fcntl.flock(self._gate, fcntl.LOCK_UN)

    def _prune(self, bytes_max: int) -> int:
        gone = 0
        while self.size_bytes() > bytes_max * 9 // 10:
            with self.writing():
                old = self._connection.execute(
                    "SELECT position FROM versions AS v WHERE position < "
                    "(SELECT max(position) FROM versions WHERE workspace = v.workspace) ORDER BY position LIMIT 64"
                ).fetchall()
                if not old:
                    return gone
                half = old[: max(1, len(old) // 2)]
                self._connection.executemany("DELETE FROM versions WHERE position = ?", half)
                gone += len(half)
                self._sweep()
            with self.lock, self._explained():
                self._connection.execute("PRAGMA incremental_vacuum").fetchall()
        return gone

    def _sweep(self) -> None:
        """Objects that no version and no known folder leads to."""
        reached: set[Digest] = set()
        waiting = [row[0] for row in self._connection.execute("SELECT DISTINCT tree FROM versions")]
        while waiting:
            digest = waiting.pop()
            if digest in reached:
                continue
            reached.add(digest)
            for leaf in self.folder(digest).values():
                if leaf.kind == "folder":
                    waiting += leaf.content
                else:
                    reached.update(leaf.content)
        # What the latest scan knows of is reached by the last version of its workspace, which stays.
        every = [row[0] for row in self._connection.execute("SELECT sha256 FROM objects")]
        self._connection.executemany(
            "DELETE FROM objects WHERE sha256 = ?", [(digest,) for digest in every if digest not in reached]
        )

    # What the last scan saw, so that the next process need not read everything again

    def known(self, workspace: str) -> Iterator[tuple[str, bytes]]:
        with self.lock, self._explained():
            yield from self._connection.execute("SELECT folder, seen FROM known WHERE workspace = ?", (workspace,))

    def remember(self, workspace: str, seen: Iterable[tuple[str, bytes]], forgotten: Iterable[str]) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO known VALUES (?, ?, ?)", [(workspace, *row) for row in seen]
        )
        self._connection.executemany(
            "DELETE FROM known WHERE workspace = ? AND folder = ?", [(workspace, name) for name in forgotten]
        )

    # Undo and redo

    def push_move(self, workspace: str, move: Move) -> None:
        row = (workspace, msgspec.msgpack.encode(move))
        self._connection.execute("INSERT INTO undone (workspace, move) VALUES (?, ?)", row)

    def last_move(self, workspace: str) -> Move | None:
        with self.lock, self._explained():
            found = self._connection.execute(
                "SELECT move FROM undone WHERE workspace = ? ORDER BY position DESC LIMIT 1", (workspace,)
            ).get
        return None if found is None else msgspec.msgpack.decode(found, type=Move)

    def pop_move(self, workspace: str) -> None:
        self._connection.execute(
            "DELETE FROM undone WHERE position = (SELECT max(position) FROM undone WHERE workspace = ?)", (workspace,)
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except apsw.FullError as full:
            raise MachineError(f"The versions of workspaces in {self.path} have no space left.") from full
        except (apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.BusyError, apsw.NotADBError) as bad:
            raise MachineError(f"The versions of workspaces in {self.path} cannot be used: {bad}.") from bad
