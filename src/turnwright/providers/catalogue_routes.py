"""What is known of the routes of a conversation, by now: prices change with the day and the hour, and a server of one's
own says how much it holds only when it is asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing

import msgspec

from turnwright.providers.catalogue import Known, completed
from turnwright.providers.router import Attempts
from turnwright.schema.parts import Closed, Part
from turnwright.schema.prompt import Prompt
from turnwright.schema.routes import Route


class RouteFacts:
    """Completes routes. What is not known of them stays as it is."""

    def __init__(self, known: Mapping[str, Known], wall_s: Callable[[], float]) -> None:
        self._known = dict(known)
        self._wall_s = wall_s

    def __call__(self, route: Route) -> Route:
        known = self._known.get(route.name)
        return completed(route, known, self._wall_s()) if known else route

    def has_window(self, name: str) -> bool:
        return self._known[name].window is not None

    def add(self, name: str, told: Known) -> None:
        """What is told now is less than what is known already: the user has said it."""
        known = self._known[name]
        new = {
            field: value
            for field in ("window", "tools", "images", "reasoning")
            if getattr(known, field) is None and (value := getattr(told, field)) is not None
        }
        self._known[name] = msgspec.structs.replace(known, **new)


class AskingAttempts:
    """Attempts that ask the server about its model where the window is not known: before the first, and once more
    after the first that went well, since a server may load a model, and choose a window, only then. `ask` has the
    routes that can answer."""

    def __init__(
        self, attempts: Attempts, facts: RouteFacts, ask: Mapping[str, Callable[[], Awaitable[Known]]]
    ) -> None:
        self._attempts = attempts
        self._facts = facts
        self._ask = dict(ask)

    def attempt(self, route: Route, prompt: Prompt) -> AsyncGenerator[Sequence[Part], None]:
        if route.name not in self._ask:
            return self._attempts.attempt(route, prompt)
        return self._asking(route, prompt)

    async def learn(self, name: str) -> None:
        if name in self._ask and not self._facts.has_window(name):
            self._facts.add(name, await self._ask[name]())

    async def _asking(self, route: Route, prompt: Prompt) -> AsyncGenerator[Sequence[Part], None]:
        last: Part | None = None
        async with aclosing(self._attempts.attempt(route, prompt)) as stream:
            async for parts in stream:
                last = parts[-1] if parts else last
                yield parts
        if isinstance(last, Closed) and last.how == "eof":
            await self.learn(route.name)
            self._ask.pop(route.name, None)
