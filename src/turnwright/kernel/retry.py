"""Whether a failed attempt is worth another, and after how long. Pure: jitter and sleep belong to the ports."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from turnwright.schema.limits import Retry
from turnwright.schema.parts import StreamError
from turnwright.schema.verdicts import RETRYABLE_VERDICTS, ErrorKind, Verdict

RETRYABLE_STATUSES = frozenset({408, 409, 425, 429, 529})
RETRYABLE_KINDS: frozenset[ErrorKind] = frozenset({"timeout", "conflict", "rate_limit", "overloaded", "server"})
EMPTY_ACCOUNT_CODES = frozenset({"insufficient_quota", "billing_not_active", "billing_hard_limit_reached"})
"""Sent with the status of a speed limit, for an account that no waiting fills."""
JITTER = 0.25


class RetryStrategy(msgspec.Struct, frozen=True, kw_only=True):
    """How patient to be. `delays_s` is repeated at its last value; `sleep_s_max` bounds all sleeps of a step."""

    delays_s: tuple[float, ...]
    tries: int | None
    """Tries on one route; None leaves it to `sleep_s_max`."""
    budget: int | None
    """Attempts of one step over all routes."""
    sleep_s_max: float

    def delay_for(self, attempt: int) -> float:
        """The pause after the given failed attempt, counted from 1."""
        return self.delays_s[min(attempt, len(self.delays_s)) - 1]


def strategy_for(retry: Retry) -> RetryStrategy:
    match retry.preset:
        case "interactive":
            return RetryStrategy(delays_s=(1.0, 4.0), tries=3, budget=retry.attempts or 4, sleep_s_max=30.0)
        case "batch":
            delays = (5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 900.0, 1800.0)
            return RetryStrategy(delays_s=delays, tries=None, budget=retry.attempts, sleep_s_max=8 * 3600.0)


def kind_of(error: StreamError) -> ErrorKind:
    """What the error is to whoever must act on it; `error.kind` is what its status says."""
    return "billing" if error.kind == "rate_limit" and error.code in EMPTY_ACCOUNT_CODES else error.kind


def is_retryable(verdict: Verdict, status: int | None, kind: ErrorKind | None) -> bool:
    """Whether the same request could do better: a wrong key or a wrong request never does."""
    if verdict not in RETRYABLE_VERDICTS or kind == "billing":
        return False
    if verdict == "http_error":
        if kind == "bad_request":
            return False  # whatever the status is: its words say that the request cannot be done
        return status is not None and (status in RETRYABLE_STATUSES or status >= 500)
    if verdict == "in_band_error":
        return kind is None or kind in RETRYABLE_KINDS
    return True


REROUTABLE_KINDS: frozenset[ErrorKind] = frozenset({"auth", "billing", "permission", "not_found"})
"""What is wrong with one route need not be wrong with the next; a bad request is bad everywhere."""


class Again(msgspec.Struct, frozen=True):
    """Try once more after a pause."""

    delay_s: float


class GiveUp(msgspec.Struct, frozen=True):
    why: str


def after_failure(
    strategy: RetryStrategy,
    *,
    retryable: bool,
    kind: ErrorKind | None,
    no_tools: bool,
    had_content: bool,
    attempts: int,
    on_this_route: int,
    rerouted: bool,
    slept_s: float,
    retry_after_s: float | None,
    jitter: float,
) -> Again | GiveUp:
    """`jitter` is between -1 and 1. A reroute needs no pause: the next host did not ask for one."""
    if had_content:
        return GiveUp("part of the answer had already been given")
    if not retryable and not (rerouted and (no_tools or kind in REROUTABLE_KINDS)):
        return GiveUp("the same request would fail again")
    if strategy.budget is not None and attempts >= strategy.budget:
        return GiveUp(f"the attempt budget of the step ({strategy.budget}) is used up")
    if rerouted:
        return Again(0.0)
    if strategy.tries is not None and on_this_route >= strategy.tries:
        return GiveUp(f"{on_this_route} tries on this route failed")
    delay_s = strategy.delay_for(on_this_route) * (1 + JITTER * jitter)
    delay_s = max(delay_s, retry_after_s or 0.0)
    if slept_s + delay_s > strategy.sleep_s_max:
        return GiveUp(f"the next try would come {delay_s:.0f} s from now, past the {strategy.sleep_s_max:.0f} s limit")
    return Again(delay_s)


NextAttempt: TypeAlias = Again | GiveUp
