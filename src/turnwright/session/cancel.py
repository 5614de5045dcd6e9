"""A request to stop, seen by whoever asked to be told."""

from __future__ import annotations

from collections.abc import Callable


class Cancellation:
    """`kernel.ports.Cancel`. Requested once, it stays requested: each turn gets its own."""

    def __init__(self) -> None:
        self._requested = False
        self._callbacks: list[Callable[[], object]] = []

    @property
    def requested(self) -> bool:
        return self._requested

    def request(self) -> None:
        if self._requested:
            return
        self._requested = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def subscribe(self, callback: Callable[[], object]) -> Callable[[], None]:
        self._callbacks.append(callback)

        def unsubscribe() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return unsubscribe
