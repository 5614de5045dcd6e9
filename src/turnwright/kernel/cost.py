"""What tokens cost. Unknown stays unknown: a missing price is never 0."""

from __future__ import annotations

from turnwright.schema.parts import Usage
from turnwright.schema.routes import Price, PriceTier

PER_MILLION = 1e-6


def cost_of(price: Price | None, usage: Usage | None) -> float | None:
    """USD, or None where a price or a count that matters is missing."""
    if price is None or usage is None or usage.input is None or usage.output is None:
        return None
    rates = rates_for(price, usage.input)
    read, write = usage.cache_read or 0, usage.cache_write or 0
    total = 0.0
    for tokens, rate in (
        (usage.input - read - write, rates.input),
        (usage.output, rates.output),
        (read, rates.cache_read),
        (write, rates.cache_write),
    ):
        if tokens and rate is None:
            return None
        total += tokens * (rate or 0.0)
    return total * PER_MILLION


def reserve_of(price: Price, input_tokens: int, output_tokens: int) -> float | None:
    """The most that a call may cost: nothing cached, everything written. None where its size has no known price."""
    rates = rates_for(price, input_tokens)
    if rates.input is None or rates.output is None:
        return None
    dearest_input = max(rates.input, rates.cache_write or 0.0)
    return (input_tokens * dearest_input + output_tokens * rates.output) * PER_MILLION


def rates_for(price: Price, input_tokens: int) -> Price | PriceTier:
    """By the size of the prompt: a tier holds for all tokens of the call, not only for those beyond its start."""
    return next((tier for tier in reversed(price.tiers) if input_tokens > tier.above), price)
