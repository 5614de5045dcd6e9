"""What a command wrote, in bounded memory: head and tail here, the whole (up to a limit) in a file."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from turnwright.machine.port import Captured, Keep
from turnwright.schema.masking import Masker
from turnwright.schema.streamed_secrets import Beginnings, StreamMasker

SPILL_BYTES_MAX = 64 * 1024 * 1024
"""Of one stream's output on disk. What comes later is counted, and its end is kept in memory."""


class Spool:
    """A folder, only ours to read, for output that is too long to be kept in memory.

    Files stay when the command ends, for the model to read; the folder's owner decides when they go.
    """

    def __init__(self, folder: Path, masker: Masker | None = None) -> None:
        self.folder = folder
        self._masker = masker
        self._numbers = itertools.count(1)

    def masking(self) -> StreamMasker | None:
        """For one file: what commands print may be a key."""
        return None if self._masker is None else StreamMasker(Beginnings(self._masker.of_bytes()))

    def create(self) -> tuple[int, str]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            path = self.folder / f"output-{next(self._numbers):04d}.txt"
            try:
                return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), str(
                    path
                )
            except FileExistsError:
                continue


class Capture:
    """Fed with pieces as they come, of any size; a line of two gigabytes is nothing special."""

    def __init__(self, keep: Keep, spool: Spool | None) -> None:
        self._keep = keep
        self._spool = spool if keep.spill else None
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0
        self._lines = 0
        self._file: int | None = None
        self._path: str | None = None
        self._spilled = 0
        self._fault = ""
        self._masking: StreamMasker | None = None

    def feed(self, piece: bytes) -> None:
        self._size += len(piece)
        self._lines += piece.count(b"\n")
        room = max(0, self._keep.head_bytes - len(self._head))
        before = bytes(self._head) if self._path is None else b""
        self._head += piece[:room]
        self._tail += piece[room:]
        if len(self._tail) > 2 * self._keep.tail_bytes + len(piece):
            del self._tail[: -self._keep.tail_bytes]
        if self._path is not None:
            self._spill(piece)
        elif self._too_much():
            self._open_spill()
            self._spill(before + piece)

    def captured(self) -> Captured:
        return Captured(
            head=bytes(self._head),
            tail=bytes(self._tail[-self._keep.tail_bytes :]) if self._keep.tail_bytes else b"",
            size=self._size,
            lines=self._lines,
            spilled_to=self._path,
            spilled_bytes=self._spilled,
            spill_fault=self._fault,
        )

    def close(self) -> None:
        if self._file is not None and self._masking is not None:
            masking, self._masking = self._masking, None
            self._written(memoryview(masking.end().encode("latin-1")))
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _too_much(self) -> bool:
        many_lines = self._keep.lines is not None and self._lines > self._keep.lines
        return self._spool is not None and not self._fault and (many_lines or self._size > self._keep.head_bytes)

    def _open_spill(self) -> None:
        assert self._spool is not None
        try:
            self._file, self._path = self._spool.create()
            self._masking = self._spool.masking()
        except OSError as failed:
            self._fault = f"{self._spool.folder}: {failed.strerror}"

    def _spill(self, piece: bytes) -> None:
        """A full disk must not cost the command its result: the fault is told beside it."""
        if self._file is None:
            return
        room = SPILL_BYTES_MAX - self._spilled
        if self._masking is None:
            self._spilled += self._written(memoryview(piece)[:room])
            return
        taken = bytes(piece[:room])
        shown = self._masking.feed(taken.decode("latin-1")).encode("latin-1")
        if self._written(memoryview(shown)) == len(shown):
            self._spilled += len(taken)

    def _written(self, view: memoryview) -> int:
        """How many bytes are in the file now."""
        assert self._file is not None
        done = 0
        try:
            while done < len(view):
                done += os.write(self._file, view[done:])
        except OSError as failed:
            self._fault = f"{self._path}: {failed.strerror}"
            self._masking = None
            self.close()
        return done
