"""What went wrong on the wire, for the record and with a remedy (`errors/step_<n>.json`)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import TypeAlias, assert_never

import msgspec

from turnwright.schema.facts import AttemptEnded, Recorded
from turnwright.schema.ids import StepId
from turnwright.schema.verdicts import GOOD_VERDICTS, ErrorKind, StallReason, Verdict

EXCERPT_CHARS_MAX = 2_000
BODY_BYTES_MAX = 65_536


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """What was kept of an attempt's bytes, already redacted."""

    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


Captures: TypeAlias = Callable[[StepId, int], "Capture | None"]
"""By step and attempt; None where nothing was kept."""


class FaultRecord(msgspec.Struct, frozen=True, kw_only=True, rename={"verdict": "class"}):
    """One failed attempt. None is "not known", never "none"."""

    step_id: str
    attempt: int
    at: int
    route: str
    purpose: str
    verdict: Verdict
    kind: ErrorKind | None
    status: int | None
    code: str
    message: str
    hint: str
    request_id: str | None
    stall: StallReason | None
    retry_after_s: float | None
    total_ms: float
    bytes_in: int
    headers: dict[str, list[str]] | None
    raw_excerpt: str | None
    html_excerpt: str | None
    body_base64: str | None
    """The first 64 KiB."""


def failed(verdict: Verdict) -> bool:
    """Whether an attempt brought no reply. An empty one came whole and is no use either: it is tried again."""
    return verdict not in GOOD_VERDICTS or verdict == "empty"


def fault_record(recorded: Recorded, ended: AttemptEnded, captures: Captures | None) -> FaultRecord:
    fault = ended.fault
    step_id = ended.step_id or ""
    capture = captures(step_id, ended.attempt) if captures is not None else None
    excerpt = fault.excerpt if fault is not None else ""
    if not excerpt and capture is not None:
        excerpt = capture.body[: 4 * EXCERPT_CHARS_MAX].decode("utf-8", "replace")
    excerpt = excerpt[:EXCERPT_CHARS_MAX]
    is_html = ended.verdict == "interstitial"
    return FaultRecord(
        step_id=step_id,
        attempt=ended.attempt,
        at=recorded.at,
        route=ended.route,
        purpose=ended.purpose,
        verdict=ended.verdict,
        kind=fault.kind if fault else None,
        status=fault.status if fault else None,
        code=fault.code if fault else "",
        message=fault.message if fault else "",
        hint=hint_for(ended),
        request_id=ended.request_id or None,
        stall=fault.stall if fault else None,
        retry_after_s=fault.retry_after_s if fault else None,
        total_ms=ended.timing.total_ms,
        bytes_in=ended.bytes_in,
        headers=_headers(capture),
        raw_excerpt=None if is_html else excerpt or None,
        html_excerpt=(excerpt or None) if is_html else None,
        body_base64=b64encode(capture.body[:BODY_BYTES_MAX]).decode() if capture is not None else None,
    )


def _headers(capture: Capture | None) -> dict[str, list[str]] | None:
    if capture is None:
        return None
    headers: dict[str, list[str]] = {}
    for name, value in capture.headers:
        headers.setdefault(name.lower(), []).append(value)
    return headers


def hint_for(ended: AttemptEnded) -> str:
    """What a person can do about it."""
    fault = ended.fault
    if fault is not None and fault.no_tools:
        return NO_TOOLS
    return hint(ended.verdict, fault.kind if fault else None)


NO_TOOLS = (
    "It takes no tools in its own way: let the model write its calls as text (tools.dialects: [xml-json]), or use a "
    "model that takes tools."
)


def hint(verdict: Verdict, kind: ErrorKind | None = None) -> str:
    return _KIND_HINTS[kind] if kind is not None else _verdict_hint(verdict)


_KIND_HINTS: dict[ErrorKind, str] = {
    "bad_request": "The provider refused the request itself: check the model's name, the dialect and the tools.",
    "auth": "The key was refused: check that it belongs to this provider and has not expired.",
    "billing": "The account has no credit left: top it up, or use another route.",
    "permission": "The key may not use this model or endpoint: ask for access, or use another route.",
    "not_found": "There is no such model or path here: check the model's name and the base URL.",
    "timeout": "The provider gave up waiting: try again, or use another route.",
    "conflict": "The provider was busy with a conflicting request: try again.",
    "too_large": "The prompt is larger than the model takes: shorten it, or use a model with a larger window.",
    "rate_limit": "Too many requests or tokens for this key: wait, or use another route.",
    "overloaded": "The provider is overloaded: wait, or use another route.",
    "cancelled": "The provider cancelled the request: try again.",
    "server": "The provider failed on its side: try again, or use another route.",
}


def _verdict_hint(verdict: Verdict) -> str:
    match verdict:
        case "interstitial":
            return (
                "A web page came where an API answer belongs: check the base URL, and any proxy or login page between."
            )
        case "non_json":
            return "The answer is neither JSON nor an event stream: check the base URL and the dialect."
        case "transport":
            return "No connection, or it broke: check the base URL, the network and any proxy."
        case "stall":
            return "The provider stopped sending: try again, use another route, or raise the timer that ran out."
        case "truncated":
            return "The stream ended before the provider said why: the reply is not whole. Try again."
        case "in_band_error":
            return "The provider reported an error inside a success: see its message."
        case "http_error":
            return "The provider answered with an error status: see its message."
        case "empty":
            return "The reply was whole and empty: try again, or use another route."
        case "reasoning_only":
            return "The model thought and said nothing: raise its output limit, or ask again."
        case "malformed_call":
            return "A tool call could not be parsed: try again, or use a model that is better at calling tools."
        case "length":
            return "The reply reached the output limit: raise it, or ask for less at once."
        case "refused":
            return "The model or its provider refused: word the task otherwise, or use another model."
        case "cancelled":
            return "It was cancelled here."
        case "complete" | "tool_calls":
            return ""
        case _:
            assert_never(verdict)
