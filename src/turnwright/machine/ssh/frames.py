"""What the two ends of an SSH machine say to each other: a head of JSON and a body of bytes, each with its length.

JSON, because either end may be a computer that means ill: nothing is decoded that could do more than hold values.
File names that are no UTF-8 travel as lone surrogates, which JSON escapes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

LENGTHS = struct.Struct("<II")
PART_BYTES_MAX = 64 * 1024 * 1024
"""Of a head and of a body. A longer one is a fault of the other end, not a file."""


class BadFrame(ValueError):
    """The other end does not speak as ours do."""


def encoded(head: dict[str, Any], body: bytes = b"") -> bytes:
    told = json.dumps(head, separators=(",", ":")).encode()
    return LENGTHS.pack(len(told), len(body)) + told + body


class Frames:
    """Bytes in, frames out, however they are cut."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, piece: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
        self._buffer += piece
        while len(self._buffer) >= LENGTHS.size:
            head_bytes, body_bytes = LENGTHS.unpack_from(self._buffer)
            if max(head_bytes, body_bytes) > PART_BYTES_MAX:
                raise BadFrame(f"a frame of {head_bytes:,} and {body_bytes:,} bytes")
            end = LENGTHS.size + head_bytes + body_bytes
            if len(self._buffer) < end:
                return
            head = _head(bytes(self._buffer[LENGTHS.size : LENGTHS.size + head_bytes]))
            body = bytes(self._buffer[LENGTHS.size + head_bytes : end])
            del self._buffer[:end]
            yield head, body


def _head(told: bytes) -> dict[str, Any]:
    try:
        head = json.loads(told)
    except ValueError as bad:
        raise BadFrame("a head that is no JSON") from bad
    if not isinstance(head, dict):
        raise BadFrame("a head that is no object")
    return head
