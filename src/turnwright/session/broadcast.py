"""One stream of facts and live events, many readers. A slow reader loses live events, never a fact, and never holds
the turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Self, TypeAlias

from turnwright.schema.facts import Recorded
from turnwright.schema.live import LiveEvent
from turnwright.schema.masking import Masker
from turnwright.session.live_masking import LiveMasker

Event: TypeAlias = Recorded | LiveEvent

LIVE_WAITING_MAX = 10_000


class Subscription:
    """An async iterator over what happens from now on; ends when the conversation closes it."""

    def __init__(self, broadcast: Broadcast) -> None:
        self._broadcast = broadcast
        self._waiting: deque[Event] = deque()
        self._wakes: asyncio.Future[None] | None = None
        self._closed = False
        self.dropped = 0
        """Live events this reader was too slow for."""

    def push(self, event: Event) -> None:
        if len(self._waiting) >= LIVE_WAITING_MAX and not isinstance(event, Recorded):
            self.dropped += 1
            return
        self._waiting.append(event)
        if self._wakes is not None:
            self._wake()

    def end(self) -> None:
        """Nothing more will come; what waits is still delivered."""
        self._closed = True
        self._wake()

    def close(self) -> None:
        self._broadcast.forget(self)
        self.end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            self._wakes = wakes = asyncio.get_running_loop().create_future()
            await wakes
        return self._waiting.popleft()

    def _wake(self) -> None:
        wakes, self._wakes = self._wakes, None
        if wakes is not None and not wakes.done():
            wakes.set_result(None)


class Broadcast:
    """`masker`: what is said in it is masked for those who watch, as it comes."""

    def __init__(self, masker: Masker | None = None) -> None:
        self._subscriptions: list[Subscription] = []
        self._listeners: list[Callable[[Event], None]] = []
        self._masker = masker
        self._live: LiveMasker | None = None

    @property
    def watched(self) -> bool:
        return bool(self._listeners)

    def subscribe(self) -> Subscription:
        subscription = Subscription(self)
        self._subscriptions.append(subscription)
        self._listeners.append(subscription.push)
        return subscription

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def forget(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._listeners.remove(subscription.push)

    def emit(self, event: Event) -> None:
        if not self._listeners:
            return
        if self._masker is None:
            self._tell(event)
            return
        if self._live is None:
            self._live = LiveMasker(self._masker, self._tell)
        if isinstance(event, Recorded):
            self._live.before(event)
            self._tell(event)
        else:
            self._live.emit(event)

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    def end(self) -> None:
        for subscription in self._subscriptions:
            subscription.end()
