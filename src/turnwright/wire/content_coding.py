"""Undoes a Content-Encoding as the bytes come. Only what the standard library reads: gzip and deflate."""

from __future__ import annotations

import zlib

INFLATED_BYTES_MAX = 64 * 1024 * 1024
"""A body that grows beyond this is an attack or a mistake."""


class CodingError(Exception):
    """The body is not what its Content-Encoding says, or grows without end."""


class Inflater:
    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._stream = zlib.decompressobj(wbits=47)  # gzip or zlib, told apart by the header
        self._begun = False
        self._total = 0

    def feed(self, data: bytes) -> bytes:
        try:
            plain = self._inflate(data)
        except zlib.error as wrong:
            raise CodingError(f"the body is not {self._coding}: {wrong}") from wrong
        self._begun = self._begun or bool(data)
        self._total += len(plain)
        if self._total > INFLATED_BYTES_MAX:
            raise CodingError(f"the body inflates to more than {INFLATED_BYTES_MAX} bytes")
        return plain

    def _inflate(self, data: bytes) -> bytes:
        limit = INFLATED_BYTES_MAX + 1 - self._total
        try:
            return self._stream.decompress(data, limit)
        except zlib.error:
            if self._begun or self._coding != "deflate":
                raise
            self._stream = zlib.decompressobj(wbits=-15)  # `deflate` without its zlib header, as some servers send it
            return self._stream.decompress(data, limit)


def inflater(coding: str) -> Inflater | None:
    """None where there is nothing to undo; a CodingError where it is not known how."""
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return None
    if coding in ("gzip", "x-gzip", "deflate"):
        return Inflater(coding)
    raise CodingError(f"the body is encoded as {coding}, which was not asked for")
