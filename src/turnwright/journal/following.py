"""Waking those who follow: at once for commits of this process, within a moment for those of another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from turnwright.schema.ids import ConversationId

LOOK_S = 0.010
LOOKS_WITHOUT_SIGN = 100
"""Once a second followers look for themselves: file times may be too coarse to show a change."""


class Watch:
    """Looks at the log's size and time while anybody follows. That opens nothing, so it drops no lock of SQLite's."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._bells: dict[asyncio.Event, ConversationId] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._seen = (0, 0)
        self._looks = 0
        self.closed = False

    def join(self, conversation_id: ConversationId) -> asyncio.Event:
        bell = asyncio.Event()
        self._bells[bell] = conversation_id
        if self._timer is None:
            self._look()
        return bell

    def leave(self, bell: asyncio.Event) -> None:
        self._bells.pop(bell, None)

    def wake(self, conversation_ids: Iterable[ConversationId]) -> None:
        written = set(conversation_ids)
        for bell, conversation_id in self._bells.items():
            if conversation_id in written:
                bell.set()

    def close(self) -> None:
        self.closed = True
        for bell in self._bells:
            bell.set()
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        if not self._bells:
            self._timer = None
            return
        try:
            status = self._log.stat()
            now = (status.st_size, status.st_mtime_ns)
        except FileNotFoundError:
            now = (0, 0)
        self._looks += 1
        if now != self._seen or self._looks % LOOKS_WITHOUT_SIGN == 0:
            self._seen = now
            for bell in self._bells:
                bell.set()
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)
