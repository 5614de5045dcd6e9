"""How long a provider asks us to wait, in all the forms in which they say it (P10). Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import msgspec

DISTANT_S = 366 * 24 * 3600.0
"""A wait longer than this is a moment given in place of a duration."""

_GO_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|us|µs|ns|h|m|s))+")
_GO_PIECE = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|h|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def retry_after_s(headers: Mapping[str, str], body: bytes, now_s: float) -> float | None:
    """Seconds to wait, never negative; None where nothing (or nothing readable) is said.

    Header names are lower case; `now_s` is the time in seconds since 1970, for moments that stand without a Date.
    """
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        if (milliseconds := _number(headers.get(name, ""))) is not None:
            return max(milliseconds / 1000, 0.0)
    said = headers.get("retry-after", "").strip()
    if said and (wait := _wait(said, headers, now_s)) is not None:
        return wait
    return _in_body(body)


def _wait(said: str, headers: Mapping[str, str], now_s: float) -> float | None:
    number = _number(said)
    if number is not None:
        if number <= DISTANT_S:
            return max(number, 0.0)
        moment_s = number / 1000 if number > 1e11 else number
        return max(moment_s - now_s, 0.0)
    if (duration := _duration(said)) is not None:
        return duration
    moment = _moment(said)
    if moment is None:
        return None
    # Against the server's own clock where it tells it: ours may be wrong by more than the wait.
    served = _moment(headers.get("date", ""))
    return max(moment - (served if served is not None else now_s), 0.0)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _duration(text: str) -> float | None:
    """`1m30s`, `0.5s`, `250ms`: Go's and protobuf's way to write one."""
    text = text.replace(" ", "")
    if not _GO_DURATION.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _GO_PIECE.findall(text))


def _moment(text: str) -> float | None:
    if not text:
        return None
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, IndexError, OverflowError):
        return None


def _in_body(body: bytes) -> float | None:
    """Google's RetryInfo, and `retry_after` as some hosts put it beside the error."""
    if b"retryDelay" not in body and b"retry_after" not in body:
        return None
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    found = _find(value, 0)
    if isinstance(found, str):
        return _duration(found) if _number(found) is None else max(float(found), 0.0)
    if isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found):
        return max(float(found), 0.0)
    if isinstance(found, Mapping):  # a protobuf duration written out
        seconds, nanos = _number(str(found.get("seconds", 0))), _number(str(found.get("nanos", 0)))
        return max(seconds + nanos / 1e9, 0.0) if seconds is not None and nanos is not None else None
    return None


def _find(value: object, depth: int) -> object:
    if depth > 8:
        return None
    if isinstance(value, Mapping):
        for name in ("retryDelay", "retry_after"):
            if value.get(name) is not None:
                return value[name]
        inner = list(value.values())
    else:
        inner = value if isinstance(value, list) else []
    return next((found for item in inner if (found := _find(item, depth + 1)) is not None), None)
