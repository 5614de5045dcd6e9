"""What tokens cost. Unknown stays unknown: a missing price is never 0."""

from __future__ import annotations

from turnwright.schema.parts import Usage
from turnwright.schema.routes import Price

PER_MILLION = 1e-6


def cost_of(price: Price | None, usage: Usage | None) -> float | None:
    """USD, or None where a price or a count that matters is missing."""
    if price is None or usage is None or usage.input is None or usage.output is None:
        return None
    read, write = usage.cache_read or 0, usage.cache_write or 0
    if (read and price.cache_read is None) or (write and price.cache_write is None):
        return None
    fresh = usage.input - read - write
    total = fresh * price.input + usage.output * price.output
    return (total + read * (price.cache_read or 0.0) + write * (price.cache_write or 0.0)) * PER_MILLION


def reserve_of(price: Price, input_tokens: int, output_tokens: int) -> float:
    """The most that a call may cost: nothing cached, everything written."""
    dearest_input = max(price.input, price.cache_write or 0.0)
    return (input_tokens * dearest_input + output_tokens * price.output) * PER_MILLION
