"""What it costs to go on where the beginning of a request is not what it was: providers cache by prefix (R6). Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from turnwright.kernel.cost import PER_MILLION, rates_for
from turnwright.kernel.history import History
from turnwright.schema.routes import Route

BESIDE = frozenset({"history"})
"""Grows with every step: that it differs says nothing."""


class BoughtAgain(msgspec.Struct, frozen=True, kw_only=True):
    changed: tuple[str, ...]
    tokens: int
    cost_usd: float | None
    """None where the price is unknown."""

    @property
    def text(self) -> str:
        what = ", ".join(self.changed)
        price = "at an unknown price" if self.cost_usd is None else f"for up to ${self.cost_usd:.4f}"
        return (
            f"not what it was in the last request: {what}. The provider's cache does not serve: "
            f"about {self.tokens} tokens are bought again, {price}"
        )

    @property
    def data(self) -> dict[str, str | int | float | bool | None]:
        return {"changed": ",".join(self.changed), "tokens": self.tokens, "cost_usd": self.cost_usd}


def bought_again(history: History, segments: Mapping[str, str], route: Route, last_route: str) -> BoughtAgain | None:
    """None where everything that was sent before is sent again as it was, or nothing was."""
    if not history.segments:
        return None
    changed = changed_segments(history.segments, segments)
    if history.rebuilt_differently:
        changed = (*changed, "history")
    if last_route and last_route != route.name:
        changed = ("model", *changed)
    if not changed:
        return None
    tokens = history.estimate(route.name)
    return BoughtAgain(changed=changed, tokens=tokens, cost_usd=_price(route, tokens))


def changed_segments(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    names = [name for name in dict.fromkeys([*before, *now]) if name not in BESIDE]
    return tuple(name for name in names if before.get(name) != now.get(name))


def _price(route: Route, tokens: int) -> float | None:
    if route.price is None:
        return None
    rates = rates_for(route.price, tokens)
    dearest = max((rate for rate in (rates.input, rates.cache_write) if rate is not None), default=None)
    return None if dearest is None else round(tokens * dearest * PER_MILLION, 6)
