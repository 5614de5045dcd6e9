"""The catalogue as one piece of bytes: a line that says where each shelf lies, then the shelves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from zlib import crc32

import msgspec

from turnwright.providers.catalogue import Shelf, Source

FORMAT = 1
"""Raised whenever the bytes of the same data would be others."""


class Slot(msgspec.Struct, frozen=True, array_like=True):
    """Where a shelf lies behind the line, and what it must be."""

    offset: int
    size: int
    crc32: int


class Head(msgspec.Struct, frozen=True, kw_only=True):
    sources: tuple[Source, ...]
    slots: dict[str, Slot]


def packed(sources: Sequence[Source], shelves: Mapping[str, Shelf]) -> bytes:
    encoded = {name: msgspec.json.encode(shelf) for name, shelf in shelves.items()}
    slots, offset = {}, 0
    for name, data in encoded.items():
        slots[name] = Slot(offset, len(data), crc32(data))
        offset += len(data)
    return msgspec.json.encode(Head(sources=tuple(sources), slots=slots)) + b"\n" + b"".join(encoded.values())


class Catalogue:
    """Shelves are read when they are asked for: a start needs one of them. Damaged bytes raise ValueError."""

    def __init__(self, data: bytes) -> None:
        end = data.find(b"\n")
        if end < 0:
            raise ValueError("the catalogue is cut")
        head = msgspec.json.decode(memoryview(data)[:end], type=Head)
        self.sources = head.sources
        self._data = data
        self._base = end + 1
        self._slots = head.slots
        self._shelves: dict[str, Shelf] = {}

    def shelf(self, provider: str) -> Shelf | None:
        """None for a provider that it does not cover."""
        slot = self._slots.get(provider)
        if slot is None:
            return None
        if provider not in self._shelves:
            begin = self._base + slot.offset
            data = self._data[begin : begin + slot.size]
            if crc32(data) != slot.crc32:
                raise ValueError(f"the shelf of {provider} is damaged")
            self._shelves[provider] = msgspec.json.decode(data, type=Shelf)
        return self._shelves[provider]

    def check(self) -> Catalogue:
        """Itself, when every shelf can be read."""
        for provider in self._slots:
            self.shelf(provider)
        return self
