"""Waking those who follow, by whatever process a commit was made.

Every commit ends with a write to the mark. Followers are told by that file: by inotify where there is one, else by
looking at it often. What this process committed itself is known without it, and wakes only its own followers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path

from turnwright.journal.marks import fresh_positions
from turnwright.schema.ids import ConversationId

LOOK_S = 0.010
REREAD_S = 1.0
"""A process may die after its commit and before its mark: its last facts are then found by reading again."""
_IN_MODIFY = 0x2


class Watch:
    """Starts with the first follower and rests after the last."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark
        self._bells: dict[asyncio.Event, ConversationId] = {}
        self._own: set[int] = set()
        self._seen = b""
        self._notices: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rereader: asyncio.TimerHandle | None = None
        self.closed = False

    def join(self, conversation_id: ConversationId) -> asyncio.Event:
        bell = asyncio.Event()
        self._bells[bell] = conversation_id
        if len(self._bells) == 1:
            self._start()
        return bell

    def leave(self, bell: asyncio.Event) -> None:
        self._bells.pop(bell, None)
        if not self._bells:
            self._stop()

    def committing(self, position: int) -> None:
        """On the writer thread, before the mark is written: this one is ours."""
        if self._bells:
            self._own.add(position)

    def wake(self, conversation_ids: Iterable[ConversationId]) -> None:
        """After a commit of this process."""
        if self._bells:
            written = set(conversation_ids)
            for bell, conversation_id in self._bells.items():
                if conversation_id in written:
                    bell.set()

    def close(self) -> None:
        self.closed = True
        self._wake_all()
        self._stop()

    def _start(self) -> None:
        self._seen = self._content()
        self._notices = notices_of(self._mark)
        loop = asyncio.get_running_loop()
        if self._notices is None:
            self._timer = loop.call_later(LOOK_S, self._look_again)
        else:
            loop.add_reader(self._notices, self._noticed)
        self._rereader = loop.call_later(REREAD_S, self._reread)

    def _stop(self) -> None:
        self._own.clear()
        if self._notices is not None:
            asyncio.get_running_loop().remove_reader(self._notices)
            os.close(self._notices)
            self._notices = None
        for timer in (self._timer, self._rereader):
            if timer is not None:
                timer.cancel()
        self._timer = self._rereader = None

    def _noticed(self) -> None:
        assert self._notices is not None
        os.read(self._notices, 4096)
        self._look()

    def _look_again(self) -> None:
        self._look()
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look_again)

    def _reread(self) -> None:
        self._wake_all()
        self._rereader = asyncio.get_running_loop().call_later(REREAD_S, self._reread)

    def _look(self) -> None:
        content = self._content()
        if content == self._seen:
            return
        fresh = fresh_positions(self._seen, content)
        self._seen = content
        if not fresh <= self._own:
            self._wake_all()
        self._own -= fresh

    def _wake_all(self) -> None:
        for bell in self._bells:
            bell.set()

    def _content(self) -> bytes:
        try:
            return self._mark.read_bytes()
        except FileNotFoundError:
            return b""


def notices_of(path: Path) -> int | None:
    """A descriptor that becomes readable when the file is written; None where the system has no such thing."""
    import ctypes

    system = ctypes.CDLL(None)
    if not hasattr(system, "inotify_init1"):
        return None
    descriptor: int = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        return None
    if system.inotify_add_watch(descriptor, os.fsencode(path), _IN_MODIFY) < 0:
        os.close(descriptor)
        return None
    return descriptor
