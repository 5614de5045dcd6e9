"""Time as a value: nothing passes until a test says so."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

_SETTLE_ROUNDS = 1_000


class FakeTimer:
    """What `call_later` gives; satisfies `kernel.ports.TimerHandle`."""

    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.when = when
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeClock:
    """Satisfies `kernel.ports.Clock`. With `auto` it jumps to the next timer whenever every task waits.

    "Every task waits" is seen from this event loop only: a task that awaits a process, a thread or a socket waits too.
    Where such things take part, use `advance`, or give them `idle_s` of real time before each jump.
    """

    def __init__(
        self, *, start_s: float = 0.0, wall_ms: int = 1_700_000_000_000, auto: bool = False, idle_s: float = 0.0
    ) -> None:
        self._now = start_s
        self._wall_at_zero_ms = wall_ms - round(start_s * 1000)
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._numbers = count()
        self._auto = auto
        self._idle_s = idle_s
        self._watching = False

    def monotonic(self) -> float:
        return self._now

    def wall_ms(self) -> int:
        """UTC milliseconds, which move with the monotonic time."""
        return self._wall_at_zero_ms + round(self._now * 1000)

    @property
    def pending(self) -> list[float]:
        """When the timers that are still set will fire, in order."""
        return sorted(when for when, _, timer in self._timers if timer.callback)

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> FakeTimer:
        timer = FakeTimer(self._now + max(delay_s, 0.0), callback)
        heapq.heappush(self._timers, (timer.when, next(self._numbers), timer))
        if self._auto and not self._watching:
            self._watching = True
            self._watch(quiet=0)
        return timer

    async def sleep(self, delay_s: float) -> None:
        if delay_s <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(delay_s, lambda: woken.done() or woken.set_result(None))  # type: ignore[func-returns-value]
        try:
            await woken
        finally:
            timer.cancel()

    async def advance(self, seconds: float) -> None:
        """Let so much time pass. Each timer fires at its own moment, and what it wakes runs before the next."""
        until = self._now + seconds
        await settle()
        while self._next_at() <= until:
            self._fire()
            await settle()
        self._now = until

    def _next_at(self) -> float:
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else float("inf")

    def _fire(self) -> None:
        self._now, _, timer = heapq.heappop(self._timers)
        callback, timer.callback = timer.callback, None
        if callback:
            callback()

    def _watch(self, quiet: int) -> None:
        """Twice quiet: between the two the loop has looked at its sockets once."""
        loop = asyncio.get_running_loop()
        if not loop_is_idle(loop):
            quiet = 0
        elif quiet < 2:
            quiet += 1
        elif self._next_at() == float("inf"):
            self._watching = False
            return
        else:
            self._fire()
            quiet = 0
        if quiet == 2 and self._idle_s > 0:
            loop.call_later(self._idle_s, self._watch, quiet)
        else:
            loop.call_soon(self._watch, quiet)


def loop_is_idle(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether nothing but the caller is ready to run. asyncio has no public way to ask."""
    ready = getattr(loop, "_ready", None)
    if ready is None:
        raise TypeError(f"FakeClock needs asyncio's own event loop, and this is {type(loop).__name__}.")
    return not ready


async def settle() -> None:
    """Run everything that can run without time passing."""
    loop = asyncio.get_running_loop()
    quiet = 0
    for _ in range(_SETTLE_ROUNDS):
        await asyncio.sleep(0)
        quiet = quiet + 1 if loop_is_idle(loop) else 0
        if quiet == 2:
            return
