"""Undoes a Content-Encoding as the bytes come. Only what the standard library reads: gzip and deflate."""

from __future__ import annotations

import zlib

INFLATED_BYTES_MAX = 64 * 1024 * 1024
"""A body that grows beyond this is an attack or a mistake."""
HEAD_BYTES_MAX = 64 * 1024


class CodingError(Exception):
    """The body is not what its Content-Encoding says, or grows without end.

    `plain` is what could still be read of the bytes given last, `rest` the bytes from which on nothing can: the same
    wherever the body was cut.
    """

    def __init__(self, message: str, plain: bytes = b"", rest: bytes = b"") -> None:
        super().__init__(message)
        self.plain = plain
        self.rest = rest


class Inflater:
    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._stream = zlib.decompressobj(wbits=47)  # gzip or zlib, told apart by the header
        self._total = 0
        self._head = b""
        """What was given while nothing came of it: evidence, if nothing ever does."""

    def feed(self, data: bytes) -> bytes:
        before = self._stream.copy()
        try:
            plain = self._inflate(data)
        except zlib.error as wrong:
            raise self._broken(before, data, f"the body is not {self._coding}: {wrong}") from wrong
        self._count(plain, data)
        return plain

    def _count(self, plain: bytes, data: bytes) -> None:
        self._total += len(plain)
        self._head = b"" if self._total else (self._head + data)[:HEAD_BYTES_MAX]
        if self._total > INFLATED_BYTES_MAX:
            raise CodingError(f"the body inflates to more than {INFLATED_BYTES_MAX} bytes")

    def _inflate(self, data: bytes) -> bytes:
        limit = INFLATED_BYTES_MAX + 1 - self._total
        try:
            return self._stream.decompress(data, limit)
        except zlib.error:
            if self._total or self._coding != "deflate" or len(self._head) + len(data) < 2:
                raise
            bare = zlib.decompressobj(wbits=-15)  # `deflate` without its zlib header, as some servers send it
            plain = bare.decompress(self._head + data, limit)
            self._stream = bare
            return plain

    def _broken(self, before: zlib._Decompress, data: bytes, message: str) -> CodingError:
        """zlib says nothing of what it read before it failed, so the last bytes are read once more, one by one."""
        plain = []
        for at in range(len(data)):
            try:
                plain.append(before.decompress(data[at : at + 1]))
            except zlib.error:
                break
        read = b"".join(plain)
        nothing = not (self._total or read)
        return CodingError(message, read, self._head + data if nothing else data[at:])


def inflater(coding: str) -> Inflater | None:
    """None where there is nothing to undo; a CodingError where it is not known how."""
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return None
    if coding in ("gzip", "x-gzip", "deflate"):
        return Inflater(coding)
    raise CodingError(f"the body is encoded as {coding}, which was not asked for")
