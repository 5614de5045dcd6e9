"""Payloads as they are stored: once under their hash, compressed where that makes them smaller."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from typing import NamedTuple

COMPRESS_FROM_BYTES = 512


class Blob(NamedTuple):
    """A payload as it will be stored."""

    sha256: bytes
    size_bytes: int
    compressed: bool
    data: bytes


def packed(blobs: Mapping[str, bytes]) -> list[Blob]:
    found = []
    for sha256, data in blobs.items():
        assert hashlib.sha256(data).hexdigest() == sha256, f"a payload under the wrong name {sha256}"
        small = zlib.compress(data, 3) if len(data) >= COMPRESS_FROM_BYTES else data
        compressed = len(small) < len(data)
        found.append(Blob(bytes.fromhex(sha256), len(data), compressed, small if compressed else data))
    return found
