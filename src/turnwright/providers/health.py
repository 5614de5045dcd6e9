"""The health of routes (P13). Pure: what happened goes in, with its time; whether a route may be asked comes out.

Three failures within ten minutes open a route's circuit for a quarter of an hour, in which it is asked nothing. Then
one trial: success closes the circuit and forgets, failure opens it again. Content counts, not only status: a page of
HTML with status 200 is a failure like any other.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from turnwright.schema.routes import Tried
from turnwright.schema.settings import Breaker
from turnwright.schema.verdicts import Verdict

TRIAL_S = 660.0
"""A trial that never reports (its process died) is given up after this long: longer than any attempt may take."""

ANSWERS: frozenset[Verdict] = frozenset(
    {"complete", "length", "refused", "tool_calls", "reasoning_only", "malformed_call"}
)

Circuit: TypeAlias = Literal["closed", "open", "trial"]


class Health(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of one way to use a route: streaming or not, with tools or without. Times are wall seconds."""

    failed_at_s: tuple[float, ...] = ()
    last_failure: str = ""
    opened_at_s: float | None = None
    down_since_s: float | None = None
    """When it first opened without a success since: failed trials move the one above, never this."""
    trial_at_s: float | None = None


class Way(msgspec.Struct, frozen=True, order=True):
    route: str
    stream: bool
    tools: bool

    def __str__(self) -> str:
        return f"{self.route} ({'streaming' if self.stream else 'whole'}, {'tools' if self.tools else 'no tools'})"


HEALTHY = Health()


def circuit_of(health: Health, breaker: Breaker, now_s: float) -> Circuit:
    if health.opened_at_s is None:
        return "closed"
    if health.trial_at_s is not None and now_s - health.trial_at_s < TRIAL_S:
        return "open"
    return "trial" if now_s - health.opened_at_s >= breaker.open_s else "open"


def trial_begun(health: Health, now_s: float) -> Health:
    """Somebody is trying: everyone else waits for the result."""
    return msgspec.structs.replace(health, trial_at_s=now_s)


def after(health: Health, tried: Tried, breaker: Breaker, now_s: float) -> Health:
    """The health after an attempt. What we cancelled and what was refused for good reason says nothing about it."""
    if tried.retryable:
        recent = tuple(at for at in health.failed_at_s if now_s - at < breaker.window_s)
        failed = (*recent, now_s)[-breaker.failures :]
        opens = health.opened_at_s is not None or len(failed) >= breaker.failures
        return Health(
            failed_at_s=failed,
            last_failure=tried.verdict,
            opened_at_s=now_s if opens else None,
            down_since_s=(health.down_since_s or now_s) if opens else None,
        )
    if answered(tried):
        return HEALTHY
    return msgspec.structs.replace(health, trial_at_s=None)


def answered(tried: Tried) -> bool:
    """The route did its work, whatever the model made of it."""
    return not tried.retryable and tried.verdict in ANSWERS


def opens_until_s(health: Health, breaker: Breaker) -> float | None:
    return None if health.opened_at_s is None else health.opened_at_s + breaker.open_s
