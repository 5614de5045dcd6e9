"""Ids and chance: the one place that draws from the system's randomness."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Literal

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
TIME_CHARS = 9
RANDOM_CHARS = 11
PREFIXES = {"turn": "t_", "call": "call_", "approval": "a_", "inbox": "m_", "conversation": "c_"}


class SystemIds:
    """Time first, so that ids sort by age; then chance, so that two processes never draw the same."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms

    def new(self, kind: Literal["turn", "call", "approval", "inbox", "conversation"]) -> str:
        random = int.from_bytes(os.urandom(8), "big")
        return PREFIXES[kind] + _base36(self._wall_ms(), TIME_CHARS) + _base36(random, RANDOM_CHARS)


def derived_id(kind: Literal["turn", "conversation"], at_ms: int, material: bytes) -> str:
    """For what comes from elsewhere: the same material has the same id, so that nothing comes in twice."""
    digest = int.from_bytes(hashlib.blake2b(material, digest_size=7).digest(), "big")
    return PREFIXES[kind] + _base36(at_ms, TIME_CHARS) + _base36(digest, RANDOM_CHARS)


def jitter() -> float:
    """Between -1 and 1."""
    return int.from_bytes(os.urandom(4), "big") / 0xFFFFFFFF * 2 - 1


def _base36(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, 36)
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
