"""The write-ahead log as a file: made longer ahead of use, and walked frame by frame without SQLite's judgement.

Both go through SQLite's own file layer. SQLite keeps its locks on the database and the shared-memory file, none on the
log, so opening and closing the log drops nothing.
"""

from __future__ import annotations

import struct
from pathlib import Path

import apsw
import msgspec

from turnwright.journal.database import CHECKSUM_VFS, LOG, PAGE_BYTES

HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
FRAME_BYTES = FRAME_HEADER_BYTES + PAGE_BYTES
AHEAD_BYTES = 256 * 1024
_ZEROES = bytes(64 * 1024)
"""SQLite's file layer writes less than 128 KiB at once."""
STRAY_BYTES = 16
"""A torn write leaves more than this behind it; a flipped bit in the empty tail leaves less."""


class LogAhead:
    """Keeps zeroes after the end of the log.

    A commit that makes the file longer costs the disk a second, journalled write of its size: about twice the time and
    the CPU of one that overwrites. Zeroes are nothing to SQLite, which reads frames up to the first invalid one.
    """

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(LOG)
        self._frames = 0
        self._size_bytes = 0
        """As it was last seen. Only a checkpoint makes the log shorter, and then its frames begin anew."""

    def extend(self, connection: apsw.Connection, frames: int) -> None:
        used = HEADER_BYTES + frames * FRAME_BYTES
        grown, self._frames = frames > self._frames, frames
        if grown and self._size_bytes - used > AHEAD_BYTES // 4:
            return
        self._size_bytes = self._path.stat().st_size
        if self._size_bytes - used > AHEAD_BYTES // 4:
            return
        # The write lock keeps every other process from writing to the log or cutting it short meanwhile.
        connection.execute("BEGIN IMMEDIATE")
        try:
            flags = [apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE, 0]
            log = apsw.VFSFile(CHECKSUM_VFS, str(self._path), flags)
            try:
                end = log.xFileSize()
                for offset in range(end, end + AHEAD_BYTES, len(_ZEROES)):
                    log.xWrite(_ZEROES, offset)
            finally:
                log.xClose()
        finally:
            connection.execute("ROLLBACK")


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """What a log holds, by its own checksums."""

    frames: int = 0
    """Up to the last whole transaction."""
    pages: frozenset[int] = frozenset()
    """Pages that the log holds newer than the database file."""
    pages_total: int = 0
    """Size of the database after the last whole transaction; 0 where there is none."""
    fault: str = ""


def walk(content: bytes) -> Walk:
    if not content.strip(b"\0"):
        return Walk()
    if len(content) < HEADER_BYTES:
        return Walk(fault=f"it is cut in its header, after {len(content)} bytes")
    magic, _, page_bytes, _, *rest = struct.unpack(">8I", content[:HEADER_BYTES])
    words = "<" if magic == 0x377F0682 else ">"
    sums = _sum(content[: HEADER_BYTES - 8], words, (0, 0))
    if magic not in (0x377F0682, 0x377F0683) or page_bytes != PAGE_BYTES or sums != tuple(rest[2:]):
        return Walk(fault="its header is not what was written")
    salts = content[16:24]
    frames, pending, seen = 0, set[int](), set[int]()
    pages_total, offset = 0, HEADER_BYTES
    while (found := _frame(content, offset, salts, words, sums)) is not None:
        page, total, sums = found
        pending.add(page)
        offset += FRAME_BYTES
        if total:
            seen |= pending
            pending.clear()
            frames, pages_total = (offset - HEADER_BYTES) // FRAME_BYTES, total
    tail = content[offset:]
    stray = len(tail) - tail.count(0)
    fault = ""
    if 0 < stray < STRAY_BYTES and tail[8:16] != salts:
        fault = f"{stray} stray bytes lie in its empty tail"
    return Walk(frames=frames, pages=frozenset(seen), pages_total=pages_total, fault=fault)


def _frame(
    content: bytes, offset: int, salts: bytes, words: str, sums: tuple[int, int]
) -> tuple[int, int, tuple[int, int]] | None:
    """Page number, database size if this frame ends a transaction, and the running sums; None if it is not valid."""
    head = content[offset : offset + FRAME_HEADER_BYTES]
    data = content[offset + FRAME_HEADER_BYTES : offset + FRAME_BYTES]
    if len(data) < PAGE_BYTES or head[8:16] != salts:
        return None
    sums = _sum(data, words, _sum(head[:8], words, sums))
    page, total, _, _, *stored = struct.unpack(">6I", head)
    return (page, total, sums) if page and sums == tuple(stored) else None


def _sum(data: bytes, words: str, sums: tuple[int, int]) -> tuple[int, int]:
    """SQLite's running checksum of a log."""
    first, second = sums
    numbers = iter(struct.unpack(f"{words}{len(data) // 4}I", data))
    for even in numbers:
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + next(numbers) + first) & 0xFFFFFFFF
    return first, second
