from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwright.providers.retry_after import retry_after_s

NOW_S = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": " 20 "}, 20.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"x-ms-retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:30 GMT"}, 10.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:30 GMT", "date": "Tue, 14 Nov 2023 22:13:00 GMT"}, 30.0),
        ({"retry-after": "Tuesday, 14-Nov-23 22:13:30 GMT"}, 10.0),
        ({"retry-after": "Thu, 01 Jan 2015 00:00:00 GMT"}, 0.0),
        ({"retry-after": "1700000007"}, 7.0),
        ({"retry-after": "1700000007500"}, 7.5),
        ({"retry-after": "1600000000"}, 0.0),
        ({"retry-after": "1m30s"}, 90.0),
        ({"retry-after": "1h2m3.5s"}, 3723.5),
        ({"retry-after": "1s500ms"}, 1.5),
        ({"retry-after": "250ms"}, 0.25),
        ({"retry-after": "6.5s"}, 6.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1x"}, None),
        ({"retry-after": "Mon, 99 Foo 2023"}, None),
    ],
)
def test_headers(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, b"", NOW_S) == seconds


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        (b'{"error":{"details":[{"@type":"RetryInfo","retryDelay":"34.07s"}]}}', 34.07),
        (b'[{"error":{"details":[{"retryDelay":"34s"}]}}]', 34.0),
        (b'{"error":{"details":[{"retryDelay":{"seconds":"3","nanos":500000000}}]}}', 3.5),
        (b'{"error":{"details":[{"retryDelay":{"seconds":3}}]}}', 3.0),
        (b'{"error":{"details":[{"retryDelay":{"seconds":"x"}}]}}', None),
        (b'{"error":{"message":"m"},"retry_after":12}', 12.0),
        (b'{"error":{"metadata":{"retry_after":"1.5"}}}', 1.5),
        (b'{"retry_after":-3}', 0.0),
        (b'{"retry_after":true}', None),
        (b'{"retry_after":"soon"}', None),
        (b'{"retry_after":', None),
        (b'{"retry_after":"\xff"}', None),
        (b"[" * 5000 + b"retry_after", None),
        (b"<html>retry_after: 5</html>", None),
    ],
)
def test_bodies(body: bytes, seconds: float | None) -> None:
    assert retry_after_s({}, body, NOW_S) == seconds


def test_a_header_that_says_nothing_leaves_the_body() -> None:
    assert retry_after_s({"retry-after": "soon"}, b'{"retry_after":2}', NOW_S) == 2.0


@given(st.text(max_size=40), st.binary(max_size=40))
def test_anything_is_read_without_an_exception(header: str, body: bytes) -> None:
    wait_s = retry_after_s({"retry-after": header, "date": header}, b'{"retry_after":' + body, NOW_S)
    assert wait_s is None or wait_s >= 0
