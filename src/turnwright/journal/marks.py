"""The high-water mark: how far the journal was acknowledged, kept outside the database.

SQLite takes a write-ahead log whose tail was cut for one that simply ended there. This file knows better. It is
written after a commit is durable and before it is acknowledged, so it never claims more than the truth; it is not
synced itself, so after a power cut it may claim less. Each commit has its own slot, which makes it safe for many
processes at once. One more slot says whether a checkpoint may have been cut short: only then may a page of the database
be half written, and the log holds it whole.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from zlib import crc32

import msgspec

MARK = "journal.mark"
SLOT_BYTES = 64
SLOTS = 128
FILE_BYTES = (2 * SLOTS + 1) * SLOT_BYTES
_FACTS, _CHANGES, _CHECKPOINT = 0, 1, 2
_SLOT = struct.Struct("<4sIQQ36sI")
_MAGIC = b"twmk"


class Mark(msgspec.Struct, frozen=True):
    """The highest acknowledged fact position and the highest number of another change."""

    facts: int = 0
    changes: int = 0
    conversation_id: str = ""
    """Whose fact it was, and its seq there."""
    seq: int = 0
    checkpointing: bool = False
    bad_slots: int = 0
    """Slots that hold neither nothing nor what was written."""


class Marks:
    """The open file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if os.fstat(self._descriptor).st_size < FILE_BYTES:
            os.truncate(self._descriptor, FILE_BYTES)
            os.fsync(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def facts(self, position: int, conversation_id: str, seq: int) -> None:
        self._write(_FACTS, position, seq, conversation_id)

    def changes(self, number: int) -> None:
        self._write(_CHANGES, number, 0, "")

    def checkpoint(self, *, running: bool) -> None:
        self._write(_CHECKPOINT, int(running), 0, "")

    def _write(self, kind: int, number: int, seq: int, conversation_id: str) -> None:
        slot = _SLOT.pack(_MAGIC, kind, number, seq, conversation_id.encode()[:36], 0)[:-4]
        place = kind * SLOTS + (0 if kind == _CHECKPOINT else number % SLOTS)
        os.pwrite(self._descriptor, slot + crc32(slot).to_bytes(4, "little"), place * SLOT_BYTES)

    def read(self) -> Mark:
        return _parse(os.pread(self._descriptor, FILE_BYTES, 0))

    def forget(self) -> None:
        """After what was lost has been written down."""
        os.pwrite(self._descriptor, bytes(2 * SLOTS * SLOT_BYTES), 0)

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


def read_mark(path: Path) -> Mark:
    return _parse(path.read_bytes())


def fresh_positions(before: bytes, after: bytes) -> set[int]:
    """Fact positions in slots that were written between two looks at the file."""
    fresh = set()
    for offset in range(0, SLOTS * SLOT_BYTES, SLOT_BYTES):
        slot = after[offset : offset + SLOT_BYTES]
        if len(slot) == SLOT_BYTES and slot != before[offset : offset + SLOT_BYTES]:
            fresh.add(_SLOT.unpack(slot)[2])
    return fresh


def _parse(content: bytes) -> Mark:
    highest = {_FACTS: (0, 0, ""), _CHANGES: (0, 0, ""), _CHECKPOINT: (0, 0, "")}
    bad = 0 if len(content) == FILE_BYTES else 1
    for offset in range(0, len(content), SLOT_BYTES):
        slot = content[offset : offset + SLOT_BYTES]
        if not any(slot):
            continue
        if len(slot) < SLOT_BYTES or crc32(slot[:-4]).to_bytes(4, "little") != slot[-4:]:
            bad += 1
            continue
        _, kind, number, seq, name, _ = _SLOT.unpack(slot)
        highest[kind] = max(highest[kind], (number, seq, name.rstrip(b"\0").decode(errors="replace")))
    facts, seq, name = highest[_FACTS]
    return Mark(
        facts=facts,
        changes=highest[_CHANGES][0],
        conversation_id=name,
        seq=seq,
        checkpointing=bool(highest[_CHECKPOINT][0]),
        bad_slots=bad,
    )
