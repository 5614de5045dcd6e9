"""Prices by the size of the prompt, and what is unknown staying so."""

from __future__ import annotations

import pytest

from turnwright.kernel.cost import cost_of, reserve_of
from turnwright.schema.parts import Usage
from turnwright.schema.routes import Price, PriceTier

FLAT = Price(input=2, output=10)
CACHED = Price(input=2, output=10, cache_read=0.2, cache_write=2.5)
TIERED = Price(
    input=2,
    output=10,
    cache_read=0.2,
    tiers=(PriceTier(above=100, input=4, output=15), PriceTier(above=200, input=None, output=None)),
)


@pytest.mark.parametrize(
    ("price", "usage", "expected"),
    [
        (FLAT, Usage(input=100, output=10), 100 * 2 + 10 * 10),
        (FLAT, Usage(input=100, output=10, cache_read=0), 300),
        (FLAT, Usage(input=100, output=10, cache_read=1), None),
        (FLAT, Usage(input=100), None),
        (FLAT, None, None),
        (None, Usage(input=100, output=10), None),
        (CACHED, Usage(input=100, output=10, cache_read=50, cache_write=20), 30 * 2 + 100 + 50 * 0.2 + 20 * 2.5),
        (TIERED, Usage(input=100, output=10, cache_read=100), 100 * 0.2 + 100),
        (TIERED, Usage(input=101, output=10), 101 * 4 + 10 * 15),
        (TIERED, Usage(input=101, output=10, cache_read=1), None),
        (TIERED, Usage(input=201, output=10), None),
    ],
)
def test_cost(price: Price | None, usage: Usage | None, expected: float | None) -> None:
    assert cost_of(price, usage) == (None if expected is None else pytest.approx(expected / 1e6))


@pytest.mark.parametrize(
    ("price", "input_tokens", "expected"),
    [(FLAT, 100, 300), (CACHED, 100, 350), (TIERED, 150, 150 * 4 + 150), (TIERED, 300, None)],
)
def test_reservation(price: Price, input_tokens: int, expected: float | None) -> None:
    assert reserve_of(price, input_tokens, 10) == (None if expected is None else pytest.approx(expected / 1e6))
