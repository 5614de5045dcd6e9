"""From another thread to the event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable


class Waker:
    """A byte in a pipe: about half the price of `call_soon_threadsafe`, which is paid at every append."""

    def __init__(self, loop: asyncio.AbstractEventLoop, woken: Callable[[], object]) -> None:
        self._loop = loop
        self._woken = woken
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        loop.add_reader(self._read, self._answer)

    def ring(self) -> None:
        """On any thread."""
        try:
            os.write(self._write, b"\0")
        except BlockingIOError:
            pass  # Full of wake-ups: it will wake.

    def close(self) -> None:
        self._loop.remove_reader(self._read)
        os.close(self._read)
        os.close(self._write)

    def _answer(self) -> None:
        os.read(self._read, 65_536)
        self._woken()
