"""What a turn and everything under it may spend. Reserved before a call, settled after it (K6)."""

from __future__ import annotations

from typing import Literal

from turnwright.kernel.cost import reserve_of
from turnwright.schema.errors import ConfigError
from turnwright.schema.limits import Limits
from turnwright.schema.routes import Route


class Budget:
    """`kernel.ports.Ledger`: no call starts that could pass the cap, even if it wrote all that it may."""

    def __init__(self, limits: Limits, *, tokens_used: int = 0, cost_spent_usd: float = 0.0) -> None:
        self._limits = limits
        self._tokens = tokens_used
        self._cost_usd = cost_spent_usd
        self._reserved_usd = 0.0

    def reserve(
        self, route: Route, input_tokens: int, output_tokens: int
    ) -> Reserved | Literal["token-budget", "cost-budget"]:
        tokens_max, cost_max = self._limits.max_tokens, self._limits.max_cost_usd
        if tokens_max is not None and self._tokens + input_tokens > tokens_max:
            return "token-budget"
        if cost_max is None:
            return Reserved(self, 0.0)
        amount_usd = reserve_of(route.price, input_tokens, output_tokens) if route.price else None
        if amount_usd is None:
            return "cost-budget"
        if self._cost_usd + self._reserved_usd + amount_usd > cost_max:
            return "cost-budget"
        self._reserved_usd += amount_usd
        return Reserved(self, amount_usd)

    def settle(self, reserved_usd: float, tokens: int | None, cost_usd: float | None) -> None:
        """What was not reported is taken to have cost all that was reserved."""
        self._reserved_usd -= reserved_usd
        self._tokens += tokens or 0
        self._cost_usd += reserved_usd if cost_usd is None else cost_usd


class Reserved:
    """A share of the budget that a call in flight holds."""

    def __init__(self, budget: Budget, amount_usd: float) -> None:
        self._budget = budget
        self._amount_usd = amount_usd

    def settle(self, tokens: int | None, cost_usd: float | None) -> None:
        self._budget.settle(self._amount_usd, tokens, cost_usd)


def check_price_known(limits: Limits, route: Route) -> None:
    """A USD cap cannot be held where the price is unknown: refused before any request."""
    if limits.max_cost_usd is not None and route.price is None:
        raise ConfigError(
            f"loop.limits.max_cost_usd = {limits.max_cost_usd:g} cannot be held: the price of {route.name} is unknown.",
            remedy=f"Give it under catalogue.models.{route.model}.price, or cap tokens with loop.limits.max_tokens.",
        )
