"""Ids that a test can foretell."""

from __future__ import annotations

from collections import Counter
from typing import Literal


class CountingIds:
    """Satisfies `kernel.ports.Ids`: `turn-1`, `call-1`, ..., and `c_` with twenty digits for conversations.

    The dash keeps them apart from the ids that scripts and providers like to give (`call_1`).
    A second process of one test must count from elsewhere (`start`), or it gives ids that are already in the journal.
    """

    def __init__(self, start: int = 0) -> None:
        self._start = start
        self._given: Counter[str] = Counter()

    def new(self, kind: Literal["turn", "call", "approval", "inbox", "conversation"]) -> str:
        self._given[kind] += 1
        number = self._start + self._given[kind]
        return f"c_{number:020d}" if kind == "conversation" else f"{kind}-{number}"
