"""Which route the next attempt takes: `kernel.ports.Model` over any number of them (P11 to P14).

It never retries by itself; it answers the loop's question `where to now?` from what was tried in this step, what the
conversation was switched to, each route's health and what probes have shown.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from turnwright.providers.alerts import Weather, watch
from turnwright.providers.health import (
    HEALTHY,
    Health,
    Way,
    after,
    answered,
    circuit_of,
    opens_until_s,
    trial_begun,
)
from turnwright.schema.parts import Part
from turnwright.schema.prompt import Prompt
from turnwright.schema.routes import NoRoute, Route, Tried
from turnwright.schema.settings import Alerts, Breaker
from turnwright.schema.verdicts import Verdict

TRIES_PER_ROUTE = 3
RETRY_AFTER_S_MAX = 30.0
"""A host that asks for more patience than this is left for the next route, where there is one."""

STREAM_FAULTS: frozenset[Verdict] = frozenset(
    {"interstitial", "non_json", "empty", "truncated", "stall", "malformed_call", "in_band_error"}
)
"""What a host that cannot stream looks like: worth one try with a whole document."""


class Attempts(Protocol):
    def attempt(self, route: Route, prompt: Prompt) -> AsyncGenerator[Sequence[Part], None]: ...


class HealthBook(Protocol):
    """Keeps health across conversations, processes and restarts."""

    def of(self, way: Way) -> Health: ...

    def put(self, way: Way, health: Health) -> None: ...


class MemoryHealth:
    """A book that is forgotten with the process."""

    def __init__(self) -> None:
        self._kept: dict[Way, Health] = {}

    def of(self, way: Way) -> Health:
        return self._kept.get(way, HEALTHY)

    def put(self, way: Way, health: Health) -> None:
        self._kept[way] = health


class Router:
    """One conversation's view of its routes, in order of preference. `streams` says of a route whether streaming was
    proven (True), disproven (False) or never probed (None). `complete` adds what is known of a route's model by now.
    Nobody falls back to the routes of `only_preferred`."""

    def __init__(
        self,
        routes: Sequence[Route],
        attempts: Attempts,
        *,
        health: HealthBook,
        wall_s: Callable[[], float],
        breaker: Breaker | None = None,
        alerts: Alerts | None = None,
        streams: Mapping[str, bool | None] | None = None,
        complete: Callable[[Route], Route] | None = None,
        only_preferred: Collection[str] = (),
    ) -> None:
        self._only_preferred = frozenset(only_preferred)
        self._routes = list(routes)
        self._attempts = attempts
        self._health = health
        self._wall_s = wall_s
        self._breaker = breaker or Breaker()
        self._alerts = alerts or Alerts()
        self._weather: dict[str, Weather] = {}
        self._streams = dict(streams or {})
        self._complete = complete
        self._current = self._routes[0].name
        self._trial: Way | None = None
        """The last choice, where it would be a trial: asking where to go is not going there."""
        self._on_trial: set[str] = set()

    def prefer(self, route: str) -> None:
        if any(each.name == route for each in self._routes):
            self._current = route

    def route(self, tried: Sequence[Tried], *, tools: bool = True) -> Route | NoRoute:
        """The current route until it has had its tries; then the next in order that is healthy. Sticky."""
        self._trial = None
        closed: list[str] = []
        for route in self._in_order():
            here = [one for one in tried if one.route == route.name]
            if self._is_spent(here):
                continue
            chosen = self._chosen(route, here, tools)
            if isinstance(chosen, Route):
                self._current = route.name
                return self._complete(chosen) if self._complete else chosen
            closed.append(chosen)
        return NoRoute(message="; ".join(closed) or "every route has been tried")

    def _chosen(self, route: Route, here: Sequence[Tried], tools: bool) -> Route | str:
        """The route in the way in which it may be asked now, or why it may not be."""
        chosen = msgspec.structs.replace(route, stream=self._streamed(route, here))
        way = Way(route.name, chosen.stream, tools)
        circuit = circuit_of(self._health.of(way), self._breaker, self._wall_s())
        if not here:
            self._on_trial.discard(route.name)
        elif route.name in self._on_trial and self._health.of(way) != HEALTHY:
            return f"{route.name} failed in its trial and is closed to requests again"
        if circuit == "open" and not (here and self._alone):
            if not (way.stream and self._health.of(_whole(way)) == HEALTHY):
                return f"{route.name} is closed to requests for {self._rest(way)}"
            # Only its streams fail: it is asked for whole documents until its streams have had their rest.
            return msgspec.structs.replace(chosen, stream=False)
        if circuit == "trial":
            self._trial = way
        return chosen

    def judged(self, tried: Tried) -> Sequence[str]:
        """A failure also counts for whatever asks more of the route: what cannot give a document cannot stream one. And
        one that has nothing to do with streaming counts for both. A success also counts for what asks less."""
        asked = Way(tried.route, tried.stream, tried.tools)
        for way in _touched(asked, tried):
            before = self._health.of(way)
            now = after(before, tried, self._breaker, self._wall_s())
            if now != before:
                self._health.put(way, now)
        down_since_s = self._health.of(asked).down_since_s
        weather = self._weather.get(tried.route, Weather())
        self._weather[tried.route], messages = watch(weather, tried, down_since_s, self._alerts, self._wall_s())
        return messages

    def attempt(self, route: Route, prompt: Prompt) -> AsyncGenerator[Sequence[Part], None]:
        trial, self._trial = self._trial, None
        if trial is not None and trial.route == route.name:
            self._health.put(trial, trial_begun(self._health.of(trial), self._wall_s()))
            self._on_trial.add(route.name)
        return self._attempts.attempt(route, prompt)

    def _in_order(self) -> list[Route]:
        """The current one first, then those behind it, then those before it. Where only who prefers it goes, nobody
        falls back to."""
        at = next(index for index, route in enumerate(self._routes) if route.name == self._current)
        current, *others = self._routes[at:] + self._routes[:at]
        if self._current in self._only_preferred:
            others = self._routes
        return [current, *(route for route in others if route.name not in self._only_preferred)]

    @property
    def _alone(self) -> bool:
        return len(self._in_order()) == 1

    def resting(self, name: str) -> bool:
        """No request may go there now, in whatever way."""
        ways = (Way(name, stream, tools) for stream in (False, True) for tools in (False, True))
        return all(circuit_of(self._health.of(way), self._breaker, self._wall_s()) == "open" for way in ways)

    def _is_spent(self, here: Sequence[Tried]) -> bool:
        """With nowhere else to go the loop decides when to stop: a route of its own is never spent."""
        if not here or self._alone:
            return False
        asked_to_wait = (here[-1].retry_after_s or 0.0) > RETRY_AFTER_S_MAX
        return len(here) >= TRIES_PER_ROUTE or not here[-1].retryable or asked_to_wait

    def _streamed(self, route: Route, here: Sequence[Tried]) -> bool:
        """Proven or not yet known: stream. Not known, and it has just failed like a host that cannot: do not."""
        proven = self._streams.get(route.name)
        if proven is not None:
            return proven and route.stream
        return route.stream and not any(one.stream and one.verdict in STREAM_FAULTS for one in here)

    def _rest(self, way: Way) -> str:
        health = self._health.of(way)
        left_s = (opens_until_s(health, self._breaker) or 0.0) - self._wall_s()
        return f"{max(0.0, left_s):.0f} s after failures in a row, the last: {health.last_failure}"


def _touched(asked: Way, tried: Tried) -> list[Way]:
    every = [Way(asked.route, stream, tools) for stream in (False, True) for tools in (False, True)]
    if tried.retryable:
        least_stream = tried.stream and tried.verdict in STREAM_FAULTS
        return [way for way in every if way.stream >= least_stream and way.tools >= asked.tools]
    if answered(tried):
        # Else a way that failed along with it would stay closed long after its host has recovered.
        return [way for way in every if way.stream <= asked.stream and way.tools <= asked.tools]
    return [asked]


def _whole(way: Way) -> Way:
    return Way(way.route, False, way.tools)
