"""Real time: the one place that asks the system what time it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from turnwright.kernel.ports import TimerHandle


class SystemClock:
    """`kernel.ports.Clock` and the session's wall clock."""

    monotonic = staticmethod(time.monotonic)  # noqa: TID251 - this is the port; a method around it would cost more

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> TimerHandle:
        return asyncio.get_running_loop().call_later(delay_s, callback)

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
