"""Statuses that are not a success, and how long to wait after them (P10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from turnwright.schema.verdicts import ErrorKind
from turnwright.testing.dialects.said import SaidError
from turnwright.testing.exchange import EPOCH, HTTP_DATE, Send, head, whole
from turnwright.testing.fault_table.case import Behaviour, Fault, Setting, failed
from turnwright.testing.fault_table.gate import PAGE

STATUSES: tuple[tuple[int, ErrorKind, bool, str], ...] = (
    (400, "bad_request", False, "temperature: expected a value between 0 and 2"),
    (401, "auth", False, "Incorrect API key provided"),
    (402, "billing", False, "You have run out of credits"),
    (403, "permission", False, "Your key has no access to this model"),
    (404, "not_found", False, "The model does not exist"),
    (408, "timeout", True, "The request took too long"),
    (409, "conflict", True, "The resource is locked by another request"),
    (413, "too_large", False, "The request is too large"),
    (422, "bad_request", False, "messages: field required"),
    (425, "overloaded", True, "Too early"),
    (429, "rate_limit", True, "Rate limit reached for requests"),
    (500, "server", True, "The server had an error while processing your request"),
    (502, "server", True, "Bad gateway"),
    (503, "overloaded", True, "The engine is overloaded"),
    (504, "timeout", True, "Gateway timeout"),
    (529, "overloaded", True, "Overloaded"),
)

RETRY_AFTER: tuple[tuple[str, str, str], ...] = (
    ("seconds", "Retry-After", "1"),
    ("float", "Retry-After", "0.5"),
    ("date", "Retry-After", HTTP_DATE.decode()),
    ("epoch", "Retry-After", EPOCH.decode()),
    ("go-duration", "Retry-After", "1s500ms"),
    ("protobuf-duration", "Retry-After", "0.5s"),
    ("milliseconds", "Retry-After-Ms", "500"),
    ("past-date", "Retry-After", "Thu, 01 Jan 2015 00:00:00 GMT"),
    ("negative", "Retry-After", "-5"),
    ("words", "Retry-After", "soon"),
)


def _status(status: int, kind: ErrorKind, retryable: bool, message: str) -> Callable[[Setting], Behaviour]:
    def make(setting: Setting) -> Behaviour:
        exchange = setting.error(SaidError(kind=kind, message=message, status=status))
        return Behaviour(exchange, failed("http_error", retryable=retryable, error_kind=kind, status=status))

    return make


def _plain(
    status: int, kind: ErrorKind, retryable: bool, content_type: str, body: bytes
) -> Callable[[Setting], Behaviour]:
    """A status whose body is not the provider's."""

    def make(setting: Setting) -> Behaviour:
        del setting
        expected = failed("http_error", retryable=retryable, error_kind=kind, status=status)
        return Behaviour(whole(status, content_type, body), expected)

    return make


LIMITED = SaidError(kind="rate_limit", message="Rate limit reached", status=429)


def _retry_after(name: str, value: str) -> Callable[[Setting], Behaviour]:
    def make(setting: Setting) -> Behaviour:
        expected = failed("http_error", error_kind="rate_limit", status=429)
        return Behaviour(setting.error(LIMITED, (name, value)), expected)

    return make


def _retry_too_late(setting: Setting) -> Behaviour:
    """An hour is more than an interactive turn will wait, and there is no other route."""
    expected = failed("http_error", error_kind="rate_limit", status=429)
    return Behaviour(
        setting.error(LIMITED, ("Retry-After", "3600")), msgspec.structs.replace(expected, requests=1, retryable=False)
    )


def _retry_info(setting: Setting) -> Behaviour | None:
    if setting.dialect != "gemini":
        return None
    body = setting.speaker.error_body(LIMITED)
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.5s"}
    body["error"]["details"] = [info]
    expected = failed("http_error", error_kind="rate_limit", status=429)
    return Behaviour(whole(429, "application/json", msgspec.json.encode(body)), expected)


def _redirect(setting: Setting) -> Behaviour:
    """A login page elsewhere: a POST with a key is not sent after it."""
    del setting
    answer = head(302, [("Location", "/login"), ("Content-Length", "0")])
    return Behaviour((Send(answer),), failed("http_error", retryable=False, status=302))


OVERFLOW = {
    "openai-chat": "This model's maximum context length is 128000 tokens. You sent 130000 tokens.",
    "openai-responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "anthropic": "prompt is too long: 212000 tokens > 200000 maximum",
    "gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "ollama": "input length exceeds the context length",
}


def _overflow(setting: Setting) -> Behaviour:
    error = SaidError(kind="bad_request", message=OVERFLOW[setting.dialect], status=400)
    body = setting.speaker.error_body(error)
    if setting.dialect.startswith("openai"):
        body["error"]["code"] = "context_length_exceeded"
    expected = failed("http_error", retryable=False, error_kind="bad_request", status=400)
    return Behaviour(whole(400, "application/json", msgspec.json.encode(body)), expected)


def _all() -> Iterator[Fault]:
    for status, kind, retryable, message in STATUSES:
        yield Fault(f"status-{status}", f"{status}: {message}", _status(status, kind, retryable, message))
    for name, header, value in RETRY_AFTER:
        yield Fault(f"retry-after-{name}", f"429 with {header}: {value}", _retry_after(header, value))
    yield Fault("retry-after-hour", "429 that asks to wait an hour", _retry_too_late)
    yield Fault("retry-info", "429 with retryDelay in the body", _retry_info)
    yield Fault("html-502", "502 with a page", _plain(502, "server", True, "text/html", PAGE))
    yield Fault("html-403", "403 with a page", _plain(403, "permission", False, "text/html", PAGE))
    yield Fault(
        "text-503", "503 with plain words", _plain(503, "overloaded", True, "text/plain", b"no healthy upstream")
    )
    yield Fault("bare-500", "500 without a body", _plain(500, "server", True, "application/json", b""))
    yield Fault("redirect", "302 to a login page", _redirect)
    yield Fault("context-overflow", "400: the history no longer fits", _overflow)


FAULTS = tuple(_all())
