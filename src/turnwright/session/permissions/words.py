"""Tables of names, written as prose."""

from __future__ import annotations


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())
