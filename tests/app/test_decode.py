"""Every recorded response means what its record says, however its bytes are cut (P21)."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_traffic import FILES, WRONG, answer, lines_of, meaning, needs_records

from turnwright.app.decode import (
    Cut,
    Record,
    cut_of,
    decode_body,
    decode_record,
    decode_records,
    dialect_of,
    events_of_body,
    pieces_of,
)
from turnwright.providers.dialects import DIALECTS
from turnwright.schema.errors import InputError, UsageError


def wrong_answers(name: str, cut: Cut) -> dict[str, Any]:
    wrong: dict[str, Any] = {}
    for line in lines_of(name):
        record = json.loads(line)
        (decoded,) = decode_records([line], cut)
        got, expected = answer(decoded), meaning(record["expected"])
        if got != expected and record["id"] not in WRONG:
            wrong[record["id"]] = {key: (got[key], expected[key]) for key in got if got[key] != expected[key]}
    return wrong


@needs_records
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("cut", [Cut("whole"), Cut("random", 1), Cut("random", 2)], ids=["whole", "random1", "random2"])
def test_recorded_responses(name: str, cut: Cut) -> None:
    assert wrong_answers(name, cut) == {}


@needs_records
@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_recorded_responses_byte_by_byte(name: str) -> None:
    assert wrong_answers(name, Cut("bytes")) == {}


GOOD = {"complete", "length", "refused", "tool_calls", "reasoning_only", "empty", "malformed_call"}


@needs_records
def test_verdicts_of_recorded_responses() -> None:
    """What was an answer is one, what was an error is one, and nothing recorded whole is called cut."""
    seen: Counter[str] = Counter()
    for name in FILES:
        for line in lines_of(name):
            record = json.loads(line)
            (decoded,) = decode_records([line])
            verdict, error = json.loads(decoded)["verdict"], record["expected"]["error"]
            seen[verdict] += 1
            if error:
                assert verdict == ("http_error" if error["status"] else "in_band_error"), record["id"]
            elif record["expected"]["finish"]:
                assert verdict in GOOD, record["id"]
    assert seen.total() == 1205


@needs_records
def test_usage_is_counted_our_way() -> None:
    """K13: a share never exceeds its whole."""
    for name in FILES:
        for line in lines_of(name):
            usage = decode_record(msgspec.json.decode(line, type=Record)).usage
            if usage is None:
                continue
            if usage.input is not None:
                assert max(usage.cache_read or 0, usage.cache_write or 0) <= usage.input, line[:80]
            if usage.output is not None:
                assert (usage.reasoning or 0) <= usage.output, line[:80]


# Without the recorded traffic.

CHAT = (
    b'data: {"id":"x","model":"m","choices":[{"delta":{"content":"H\xc3\xa9"}}]}\r\n\r\n'
    b": keep-alive\n\n"
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c",'
    b'"function":{"name":"read","arguments":"{\\"a\\""}}]}}]}\n\n'
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]},'
    b'"finish_reason":"tool_calls"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n'
    b"data: [DONE]\n\n"
)
CHAT_DECODED = {
    "text": "Hé",
    "reasoning": None,
    "tool_calls": [{"id": "c", "name": "read", "arguments": {"a": 1}}],
    "finish_reason": "tool_calls",
    "finish": "tool_calls",
    "usage": {"input": 3, "output": 4, "cache_read": None, "cache_write": None, "reasoning": None},
    "usage_reported": {"input": 3, "output": 4, "cache_read": None, "cache_write": None, "reasoning": None},
    "verdict": "tool_calls",
    "error": None,
}


def shown(body: bytes, **more: Any) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(msgspec.json.encode(decode_body("openai-chat", body, **more)))
    return decoded


@settings(deadline=None)
@given(st.integers(0, 10**9))
def test_any_cut_gives_the_same(seed: int) -> None:
    pieces = list(pieces_of(CHAT, Cut("random", seed)))
    assert b"".join(pieces) == CHAT
    assert all(pieces)
    assert shown(CHAT, cut=Cut("random", seed)) == CHAT_DECODED


def test_a_body_is_shown() -> None:
    assert shown(CHAT) == CHAT_DECODED
    assert shown(CHAT, cut=Cut("bytes")) == CHAT_DECODED


FAULTS: list[tuple[bytes, dict[str, Any], str]] = [
    (b"<!doctype html><html>", {}, "interstitial"),
    (b"hello", {"content_type": "text/plain"}, "non_json"),
    (b"  \n", {}, "non_json"),
    (b"", {}, "non_json"),
    (b"data: [DONE]\n\n", {}, "empty"),
    (b": only\n\n: comments\n\n", {}, "truncated"),
    (CHAT[:200], {}, "truncated"),
    (CHAT[:40], {}, "truncated"),
    (b'{"error":{"message":"busy","code":503}}', {}, "in_band_error"),
    (b'{"error":{"message":"busy"}}', {"status": 503}, "http_error"),
    (b'{"choices":[{"message":{"content":"Hi"}', {}, "truncated"),
    (b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}', {}, "complete"),
    (b'{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}', {}, "empty"),
    (b'{"choices":[]}', {}, "empty"),
    (b'{"status":"ok"}', {}, "empty"),
]


@pytest.mark.parametrize(("body", "more", "verdict"), FAULTS, ids=range(len(FAULTS)))
@pytest.mark.parametrize("cut", ["whole", "bytes", "random:7"])
def test_faults_have_their_verdicts(body: bytes, more: dict[str, Any], verdict: str, cut: str) -> None:
    assert shown(body, cut=cut_of(cut), **more)["verdict"] == verdict


def test_a_call_that_cannot_be_parsed_says_why_and_one_without_an_id_has_none() -> None:
    call = {"function": {"name": "read", "arguments": "{"}}
    body = json.dumps({"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "stop"}]}).encode()
    decoded = shown(body)
    assert decoded["verdict"] == "malformed_call"
    assert decoded["tool_calls"] == [
        {
            "id": None,
            "name": "read",
            "arguments": None,
            "error": "The arguments are not valid JSON: Input data was truncated.",
        }
    ]


def test_ollama_bodies_need_no_content_type() -> None:
    pretty = json.dumps({"model": "m", "message": {"content": "Hi"}, "done": True, "done_reason": "stop"}, indent=1)
    lines = (
        b'{"model":"m","message":{"content":"H"},"done":false}\n{"model":"m","message":{"content":"i"},"done":true}\n'
    )
    assert [decode_body("ollama", body).text for body in (pretty.encode(), lines)] == ["Hi", "Hi"]


def test_events_are_the_parts() -> None:
    parts = [json.loads(line) for line in events_of_body("openai-chat", CHAT)]
    assert [part["part"] for part in parts] == [
        "start",
        "text",
        "tool-call-start",
        "tool-call-args",
        "tool-call-args",
        "finish",
        "usage",
        "done",
        "closed",
    ]


def record(**more: Any) -> bytes:
    return json.dumps({"id": "r1", "dialect": "openai-chat", "stream": True, **more}).encode()


def test_records_one_a_line() -> None:
    encoded = base64.b64encode(CHAT).decode()
    lines = [record(body=CHAT.decode()), b"\n", record(id="r2", body_base64=encoded, response_headers={"X-A": "b"})]
    one, two = (json.loads(line) for line in decode_records(lines))
    assert one == {"id": "r1", **CHAT_DECODED}
    assert two == {"id": "r2", **CHAT_DECODED}


def test_events_of_records_carry_their_id() -> None:
    lines = list(decode_records([record(body="data: [DONE]\n\n")], events=True))
    assert [json.loads(line) for line in lines] == [
        {"id": "r1", "part": "done"},
        {"id": "r1", "part": "closed", "how": "eof", "status": 200, "bytes_in": 14},
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "Record 1 cannot be read: Input data was truncated."),
        (b'{"id":"x"}', "Record 1 cannot be read: Object missing required field `dialect`."),
        (record(body_base64="!"), "Record 1 cannot be read:"),
    ],
)
def test_a_record_that_is_none_is_named(line: bytes, says: str) -> None:
    with pytest.raises(InputError) as caught:
        list(decode_records([line]))
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda: cut_of("half"), "--cut 'half' is none of whole, bytes, random:SEED."),
        (lambda: cut_of("random:x"), "--cut 'random:x' is none of"),
        (lambda: dialect_of("klingon"), "No dialect 'klingon'. Known are openai-chat, openai-responses,"),
    ],
)
def test_wrong_words_are_named(act: Callable[[], object], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        act()
    assert str(caught.value).startswith(says)


def test_dialects() -> None:
    assert [dialect_of(name) for name in DIALECTS] == list(DIALECTS)
    assert dialect_of("ollama-generate") == "ollama"
    assert [cut_of(text) for text in ("whole", "bytes", "random:5")] == [Cut("whole"), Cut("bytes"), Cut("random", 5)]
