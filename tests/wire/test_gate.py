from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwright.wire.gate import Framing, Reading, Refused, accept, gate

SSE = "text/event-stream; charset=utf-8"
JSON = "application/json"


@pytest.mark.parametrize(
    ("content_type", "body", "asked", "reading"),
    [
        (SSE, b'data: {"a":1}\n\n', "sse", "sse"),
        (SSE, b": keepalive\n\n", "sse", "sse"),
        (SSE, b"\n\nevent: x\n", "sse", "sse"),
        (SSE, b"mood: fine\ndata: x\n", "sse", "sse"),
        (SSE, b"\xef\xbb\xbfdata: x\n", "sse", "sse"),
        (SSE, b'{"a":1}', "sse", "json"),
        (SSE, b'[{"a":1}]', "sse", "json-array"),
        (JSON, b'{"a":1}', None, "json"),
        (JSON, b' \n {"a":1}', "sse", "json"),
        (JSON, b'[{"error":{}}]', None, "json"),
        (JSON, b'[{"a":1}', "sse", "json-array"),
        (JSON, b"data: x\n\n", None, "sse"),
        (JSON, b'{"a":1}', "ndjson", "json"),
        ("application/x-ndjson", b'{"a":1}\n', "ndjson", "ndjson"),
        ("application/x-ndjson", b'{"a":1}\n', None, "ndjson"),
        ("", b'{"a":1}\n', "ndjson", "ndjson"),
        ("", b"data: x\n\n", "sse", "sse"),
        ("text/plain", b"event: x\n", None, "sse"),
        ("text/plain", b": OPENROUTER PROCESSING\n", "sse", "sse"),
        ("application/octet-stream", b'{"a":1}', None, "json"),
        ("application/vnd.x+json", b'{"a":1}', "sse", "json"),
    ],
)
def test_what_is_read(content_type: str, body: bytes, asked: Framing | None, reading: Reading) -> None:
    assert gate(200, content_type, body, asked, ended=False) == reading
    assert gate(200, content_type, body, asked, ended=True) == reading


@pytest.mark.parametrize(
    ("status", "content_type", "body", "how"),
    [
        (500, JSON, b'{"error":{}}', "http_error"),
        (404, "text/html", b"<html>", "http_error"),
        (302, "", b"", "http_error"),
        (200, "text/html; charset=utf-8", b"<!doctype html>", "interstitial"),
        (200, "text/html", b'{"a":1}', "interstitial"),
        (200, "text/html", b"", "interstitial"),
        (200, JSON, b"  <!DOCTYPE html>", "interstitial"),
        (200, SSE, b"\xef\xbb\xbf\r\n<html>", "interstitial"),
        (200, "", b"<p>x", "interstitial"),
        (200, JSON, b'<?xml version="1.0"?>', "non_json"),
        (200, JSON, b"", "non_json"),
        (200, SSE, b"", "non_json"),
        (200, SSE, b" \r\n\r\n", "non_json"),
        (200, JSON, b" \n ", "non_json"),
        (200, SSE, b"upstream connect error or disconnect/reset before headers: x", "non_json"),
        (200, "text/plain", b"upstream connect error", "non_json"),
        (200, JSON, b"null", "non_json"),
        (200, JSON, b'"words"', "non_json"),
        (200, "", b"\x1f\x8b\x08\x00", "non_json"),
        (200, "text/plain", b"database is down", "non_json"),
        (200, "text/plain", b"ideas: none", "non_json"),
    ],
)
def test_what_is_refused(status: int, content_type: str, body: bytes, how: str) -> None:
    refused = gate(status, content_type, body, "sse", ended=True)
    assert isinstance(refused, Refused)
    assert (refused.how, bool(refused.detail)) == (how, True)


@pytest.mark.parametrize("body", [b"", b" \n", b"\xef\xbb", b"da", b"even", b"<", b"<?x"])
def test_more_is_needed(body: bytes) -> None:
    assert gate(200, "text/plain", body, "sse", ended=False) is None


@pytest.mark.parametrize(
    "body",
    [
        *(b'data: {"a":1}\n\n', b'{"a":1}', b"<!doctype html>", b"upstream connect error", b"retry: 5\n", b": x\n"),
        *(b"data\ndata: 1\n", b"abc\ndata: 1\n", b"event\r\n"),
    ],
)
@pytest.mark.parametrize("content_type", [SSE, JSON, "", "text/plain"])
def test_the_first_answer_is_the_last(body: bytes, content_type: str) -> None:
    """More bytes never change a decision, so that it does not matter how they are cut."""
    whole = gate(200, content_type, body, "sse", ended=True)
    answers = [gate(200, content_type, body[:end], "sse", ended=False) for end in range(len(body) + 1)]
    decided = [answer for answer in answers if answer is not None]
    assert all(answer == whole for answer in decided)


@given(
    st.integers(100, 599), st.sampled_from([SSE, JSON, "", "text/html", "x"]), st.binary(max_size=100), st.booleans()
)
def test_any_bytes_get_an_answer(status: int, content_type: str, body: bytes, streaming: bool) -> None:
    assert gate(status, content_type, body, "sse" if streaming else None, ended=True) is not None


def test_what_is_asked_for() -> None:
    assert accept(True) == (("Accept", "text/event-stream"), ("Accept-Encoding", "identity"))
    assert accept(False) == (("Accept", "application/json; charset=utf-8"), ("Accept-Encoding", "gzip, deflate"))
