"""Time as the journal tells it: it stands where the last fact left it, and runs out when it did then."""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable
from itertools import count

TIMERS_MAX = 100_000
"""Heartbeats of a week. A timeout that does not come by then was not recorded by this loop."""


class Timer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class RecordedClock:
    """`kernel.ports.Clock`. Timers fire only where the recording says that a time limit ended the turn: what was not
    over then is not over now, however the facts lie apart."""

    def __init__(self, at_ms: int) -> None:
        self._zero_ms = at_ms
        self._now = 0.0
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = count()
        self.before_sleep: Callable[[], Awaitable[None]] = _nothing
        """Does not come back where the recording says that the turn ended meanwhile."""

    def monotonic(self) -> float:
        return self._now

    def be_at(self, at_ms: int) -> None:
        """Never back: the wall clock may have been set meanwhile."""
        self._now = max(self._now, (at_ms - self._zero_ms) / 1000)

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (self._now + max(delay_s, 0.0), next(self._numbers), timer))
        return timer

    def run_out(self, over: Callable[[], bool]) -> None:
        """Let time pass, timer by timer, until the turn is over."""
        for _ in range(TIMERS_MAX):
            if over() or not self._timers:
                return
            when, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()

    async def sleep(self, delay_s: float) -> None:
        await self.before_sleep()
        self._now += max(delay_s, 0.0)


async def _nothing() -> None:
    pass
