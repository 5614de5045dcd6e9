"""What became of an attempt, and why a turn stopped: two closed lists that everything else reads."""

from __future__ import annotations

from typing import Literal, TypeAlias

Verdict: TypeAlias = Literal[
    "complete",  # the reply is whole
    "length",  # the provider cut it at its output limit
    "refused",  # a content filter or a refusal
    "tool_calls",  # whole, and asks for tools
    "reasoning_only",  # whole, but nothing besides reasoning
    "empty",  # a terminal frame, and nothing in it
    "truncated",  # the bytes ended before a terminal frame
    "malformed_call",  # whole, but a tool call cannot be parsed
    "in_band_error",  # an error inside a success
    "interstitial",  # HTML where an API answer belongs
    "non_json",  # neither JSON nor SSE
    "stall",  # a timer ran out while bytes were awaited
    "http_error",  # a status that is not a success
    "transport",  # no connection, reset, TLS, DNS
    "cancelled",  # we hung up
]

GOOD_VERDICTS: frozenset[Verdict] = frozenset(
    {"complete", "length", "refused", "tool_calls", "reasoning_only", "empty", "malformed_call"}
)
"""Verdicts of an answer that was delivered whole by the provider, whatever its worth.

`empty` and `malformed_call` are here because the *transport* worked; retry and health read RETRYABLE_VERDICTS.
"""

RETRYABLE_VERDICTS: frozenset[Verdict] = frozenset(
    {"stall", "interstitial", "empty", "non_json", "transport", "truncated", "in_band_error", "http_error"}
)
"""Verdicts that may be tried again before any content came (status and error kind decide the last two)."""

FinishClass: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "error", "other"]

ErrorKind: TypeAlias = Literal[
    "bad_request",
    "auth",
    "billing",
    "permission",
    "not_found",
    "timeout",
    "conflict",
    "too_large",
    "rate_limit",
    "overloaded",
    "cancelled",
    "server",
]

StallReason: TypeAlias = Literal["connect", "waiting_headers", "first_part", "gap", "keepalive_only", "total"]

StopReason: TypeAlias = Literal[
    "stop",
    "length",
    "max-steps",
    "idle-timeout",
    "step-timeout",
    "wall-timeout",
    "token-budget",
    "cost-budget",
    "cancelled",
    "provider-error",
    "guard-stop",
    "needs-user",
    "refused",
    "internal-error",
]

TaskClass: TypeAlias = Literal["analysis", "action", "other"]
"""What a request is about. It decides how long a turn may go on looking before it must have found something."""

Effect: TypeAlias = Literal["reads", "writes", "runs", "asks"]
"""What a tool does to the world. It decides concurrency and what recovery may repeat."""

Idempotency: TypeAlias = Literal["repeatable", "once"]
"""`repeatable` may be done again after a crash; `once` may not, and its outcome is then unknown."""


def idempotency_of(effect: Effect) -> Idempotency:
    """A question changes nothing, and an answer that is on record is not asked for again."""
    return "repeatable" if effect in ("reads", "asks") else "once"
