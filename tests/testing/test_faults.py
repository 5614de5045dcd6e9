from __future__ import annotations

import asyncio
import gzip
import json
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest

from turnwright.testing.dialects import SPEAKERS
from turnwright.testing.exchange import Close, Hang, Pulse, Reset
from turnwright.testing.fault_table import FAULTS, cases, settings
from turnwright.testing.fault_table.case import FINAL, TRIES, FaultCase
from turnwright.testing.fault_table.chance import random_cases
from turnwright.testing.faults import FaultServer, row_of, serve

PULSE_S = 0.02
AT_ONCE = 40
NOT_FOR_A_PLAIN_READER = {
    "ids-reused",
    "indexes-missing",
    "indexes-reused",
    "name-in-pieces",
    "slow",  # read in its own test
    "data-lines",
    "decorated",
    "foreign-frame",
}


# The simplest client there can be: a socket, and readers of the dialects that know nothing of Turnwright.


@dataclass
class Answer:
    raw: bytes = b""
    ended: Literal["eof", "reset", "silence"] = "silence"
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    whole: bool = False
    """The body's own framing says that it is over."""


async def fetch(url: str, silence_s: float = 0.25, noise_s: float = 10) -> Answer:
    """Sends one POST and reads until the connection ends, the reply is whole, or nothing comes for a while."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    payload = b'{"stream":true}'
    head = f"POST {parts.path}/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(payload)}\r\n\r\n"
    writer.write(head.encode() + payload)
    answer = Answer()
    received = bytearray()
    began = time.monotonic()
    try:
        while True:
            async with asyncio.timeout(silence_s):
                data = await reader.read(1 << 16)
            if not data:
                answer.ended = "eof"
                break
            received += data
            if may_be_over(received) and understand(bytes(received), answer) and answer.whole:
                break
            if time.monotonic() - began > noise_s:
                break
    except TimeoutError:
        answer.ended = "silence"
    except ConnectionResetError:
        answer.ended = "reset"
    finally:
        writer.close()
    answer.raw = bytes(received)
    understand(answer.raw, answer)
    return answer


def may_be_over(received: bytearray) -> bool:
    if b"\r\nContent-Length:" in received[:1000]:
        return True
    return received.endswith(b"0\r\n\r\n")


def understand(raw: bytes, answer: Answer) -> bool:
    head, separator, rest = raw.partition(b"\r\n\r\n")
    if not separator or not head.startswith(b"HTTP/1.1 "):
        return False
    if head.startswith(b"HTTP/1.1 103"):
        return understand(rest, answer)
    first, *lines = head.decode("latin-1").split("\r\n")
    answer.status = int(first.split()[1])
    answer.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if answer.headers.get("transfer-encoding") == "chunked":
        answer.body, answer.whole = dechunked(rest)
    elif "content-length" in answer.headers:
        length = int(answer.headers["content-length"])
        answer.body, answer.whole = rest[:length], len(rest) >= length
    else:
        answer.body = rest
    return True


def dechunked(rest: bytes) -> tuple[bytes, bool]:
    body = b""
    while True:
        line, separator, rest = rest.partition(b"\r\n")
        try:
            size = int(line, 16)
        except ValueError:
            return body, False
        if not separator:
            return body, False
        if size == 0:
            return body, True
        body += rest[:size]
        if len(rest) < size + 2:
            return body, False
        rest = rest[size + 2 :]


@dataclass
class Read:
    text: str = ""
    reasoning: str = ""
    calls: list[list[str]] = field(default_factory=list)
    """Names and texts of arguments."""
    finish: str | None = None

    def values(self) -> list[tuple[str, Any]]:
        return [(name, json.loads(arguments or "{}")) for name, arguments in self.calls]


def documents(answer: Answer) -> list[dict[str, Any]]:
    body = gzip.decompress(answer.body) if answer.headers.get("content-encoding") == "gzip" else answer.body
    text = body.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if text.lstrip().startswith(("{", "[")):
        try:
            value = json.loads(text)
            return value if isinstance(value, list) else [value]
        except json.JSONDecodeError:
            return [json.loads(line) for line in text.split("\n") if line]
    found = []
    for block in text.split("\n\n"):
        data = "\n".join(line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:"))
        if data and data != "[DONE]":
            found.append(json.loads(data))
    return found


def read(dialect: str, answer: Answer) -> Read:
    result = Read()
    for document in documents(answer):
        READERS[dialect](document, result)
    return result


def _chat(document: dict[str, Any], result: Read) -> None:
    for choice in document.get("choices", []):
        words = choice.get("delta") or choice.get("message") or {}
        result.text += words.get("content") or ""
        result.reasoning += words.get("reasoning_content") or ""
        for position, call in enumerate(words.get("tool_calls") or []):
            index = call.get("index", position)
            while len(result.calls) <= index:
                result.calls.append(["", ""])
            result.calls[index][0] = call["function"].get("name") or result.calls[index][0]
            arguments = call["function"].get("arguments") or ""
            result.calls[index][1] += arguments if isinstance(arguments, str) else json.dumps(arguments)
        result.finish = choice.get("finish_reason") or result.finish


def _responses(document: dict[str, Any], result: Read) -> None:
    kind = document.get("type", "")
    if kind == "response.output_text.delta":
        result.text += document["delta"]
    elif kind == "response.reasoning_summary_text.delta":
        result.reasoning += document["delta"]
    elif kind == "response.function_call_arguments.delta":
        result.calls[-1][1] += document["delta"]
    elif kind == "response.output_item.added" and document["item"]["type"] == "function_call":
        result.calls.append([document["item"]["name"], ""])
    elif kind in ("response.completed", "response.incomplete"):
        result.finish = document["response"]["status"]
    elif "output" in document:
        result.finish = document["status"]
        for item in document["output"]:
            if item["type"] == "function_call":
                result.calls.append([item["name"], item["arguments"]])
            elif item["type"] == "reasoning":
                result.reasoning += "".join(piece["text"] for piece in item["summary"])
            else:
                result.text += "".join(piece.get("text", "") for piece in item["content"])


def _anthropic(document: dict[str, Any], result: Read) -> None:
    blocks = document.get("content", []) if document.get("type") == "message" else []
    for block in [*blocks, *([document["content_block"]] if "content_block" in document else [])]:
        result.text += block.get("text", "")
        result.reasoning += block.get("thinking", "")
        if block["type"] == "tool_use":
            result.calls.append([block["name"], json.dumps(block["input"]) if blocks else ""])
            result.blocks = {**getattr(result, "blocks", {}), document.get("index"): result.calls[-1]}  # type: ignore[attr-defined]
    delta = document.get("delta", {})
    result.text += delta.get("text", "")
    result.reasoning += delta.get("thinking", "")
    if "partial_json" in delta:
        result.blocks[document["index"]][1] += delta["partial_json"]  # type: ignore[attr-defined]
    result.finish = document.get("stop_reason") or delta.get("stop_reason") or result.finish


def _gemini(document: dict[str, Any], result: Read) -> None:
    for candidate in document.get("candidates", []):
        for part in candidate.get("content", {}).get("parts", []):
            if part.get("thought"):
                result.reasoning += part["text"]
            elif "functionCall" in part:
                result.calls.append([part["functionCall"]["name"], json.dumps(part["functionCall"]["args"])])
            else:
                result.text += part["text"]
        result.finish = candidate.get("finishReason") or result.finish


def _ollama(document: dict[str, Any], result: Read) -> None:
    message = document.get("message", {})
    result.text += message.get("content", "")
    result.reasoning += message.get("thinking", "")
    for call in message.get("tool_calls", []):
        result.calls.append([call["function"]["name"], json.dumps(call["function"]["arguments"])])
    result.finish = document.get("done_reason") or result.finish


READERS = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "ollama": _ollama,
}


# The tests.


async def fetch_all(server: FaultServer, rows: Iterable[FaultCase], noise_s: float = 10) -> dict[str, Answer]:
    gate = asyncio.Semaphore(AT_ONCE)
    answers: dict[str, Answer] = {}

    async def one(row: FaultCase) -> None:
        async with gate:
            answers[row.id] = await fetch(server.url(row.id), noise_s=noise_s)

    async with asyncio.TaskGroup() as group:
        for row in rows:
            group.create_task(one(row))
    return answers


def test_the_table_is_whole() -> None:
    rows = cases()
    assert len({row.id for row in rows}) == len(rows)
    assert all(re.fullmatch(r"[a-z0-9.-]+", row.id) for row in rows)
    assert {row.fault for row in rows} == {fault.name for fault in FAULTS}
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    by_setting = Counter((row.dialect, row.streaming, row.tools) for row in rows)
    assert set(by_setting) == {(one.dialect, one.streaming, one.tools) for one in settings()}
    assert min(by_setting.values()) > 50
    verdicts = {row.expected.verdict for row in rows}
    assert verdicts == {
        "complete", "length", "refused", "tool_calls", "reasoning_only", "empty", "truncated", "malformed_call",
        "in_band_error", "interstitial", "non_json", "stall", "http_error", "transport",
    }  # fmt: skip
    assert {row.expected.stall for row in rows} - {None} == {
        "waiting_headers", "first_part", "gap", "keepalive_only", "total",
    }  # fmt: skip


@pytest.mark.parametrize("row", [row for row in cases() if row.dialect == "openai-chat"], ids=lambda row: row.id)
def test_promises_agree_with_themselves(row: FaultCase) -> None:
    expected = row.expected
    assert 1 <= expected.requests <= TRIES + 1
    if expected.verdict in ("complete", "tool_calls"):
        assert (expected.ends, expected.retryable) == ("stop", False)
    if expected.calls:
        assert expected.answer == FINAL
    if row.for_documents:
        assert (expected.retryable, expected.requests, expected.ends) == (True, 2, "stop")
    elif row.once:
        assert (expected.retryable, expected.ends) == (True, "stop")
        assert len(row.exchanges) == expected.requests
    elif expected.retryable:
        assert (expected.requests, expected.ends) == (TRIES, "provider-error")
    elif expected.ends != "stop":
        assert expected.requests == 1


async def test_good_rows_say_what_the_table_says() -> None:
    rows = [
        row
        for row in cases()
        if row.expected.verdict in ("complete", "tool_calls", "length", "reasoning_only")
        and row.fault not in NOT_FOR_A_PLAIN_READER
        and not row.once
    ]
    assert len(rows) > 300
    async with serve(rows, pulse_s=PULSE_S) as server:
        answers = await fetch_all(server, rows)
        assert {case: len(server.seen(case)) for case in answers} == {row.id: 1 for row in rows}
    for row in rows:
        found = read(row.dialect, answers[row.id])
        expected = Read(text=row.expected.text or "", reasoning=row.expected.reasoning)
        assert (found.text, found.reasoning) == (expected.text, expected.reasoning), row.id
        if row.expected.verdict == "tool_calls" and row.fault != "unknown-tool":
            calls = [(call.name, json.loads(call.arguments)) for call in row.expected.calls]
            assert found.values() == calls, row.id
        if row.fault not in ("done-without-finish", "prompt-blocked"):
            assert found.finish, row.id


async def test_broken_rows_break_where_they_say() -> None:
    rows = [row for row in cases() if row.expected.verdict not in ("complete", "tool_calls") and not row.once]
    rows = [row for row in rows if row.fault != "over-cap"]
    async with serve(rows, pulse_s=PULSE_S) as server:
        answers = await fetch_all(server, rows, noise_s=0.5)
    for row in rows:
        answer, expected = answers[row.id], row.expected
        last = row.exchanges[0][-1]
        match last:
            case Reset():
                assert answer.ended == "reset", row.id
            case Close():
                assert answer.ended == "eof" or answer.whole, row.id
            case Hang():
                assert (answer.ended, answer.whole) == ("silence", False), row.id
            case Pulse():
                assert not answer.whole, row.id
            case _:
                assert answer.whole, row.id
        if expected.verdict == "http_error":
            assert answer.status == expected.status, row.id
        elif answer.status is not None:
            assert answer.status == 200, row.id
        if expected.verdict == "interstitial":
            assert b"<html>" in answer.body, row.id
        if expected.verdict == "in_band_error":
            assert b"error" in answer.body or b"failed" in answer.body, row.id


async def test_an_event_may_be_larger_than_anyone_should_read() -> None:
    row = next(row for row in cases() if row.fault == "over-cap")
    async with serve([row]) as server:
        answer = await fetch(server.url(row.id), silence_s=5)
    assert max(map(len, answer.body.split(b"\n"))) > 9 * 1024 * 1024


async def test_slow_streams_are_slow_and_whole() -> None:
    rows = [row for row in cases() if row.fault == "slow"]
    async with serve(rows, pulse_s=PULSE_S) as server:
        answers = await fetch_all(server, rows)
    for row in rows:
        answer = answers[row.id]
        assert answer.whole, row.id
        answer.body = answer.body.replace(b": keepalive\n\n", b"")
        assert read(row.dialect, answer).text == row.expected.text, row.id


async def test_the_second_request_may_be_answered() -> None:
    row = next(row for row in cases() if row.id == "status-503.anthropic.stream.tools.once")
    async with serve([row]) as server:
        statuses = [(await fetch(server.url(row.id))).status for _ in range(2)]
        last = read("anthropic", await fetch(server.url(row.id)))
        again = read("anthropic", await fetch(server.url(row.id)))
        seen = server.seen(row.id)
    assert statuses == [503, 200]
    assert (last.text, again.text) == (FINAL, FINAL)
    assert len(seen) == 4
    assert (seen[0].method, seen[0].path, seen[0].body) == ("POST", f"/{row.id}/chat/completions", b'{"stream":true}')


async def test_times_are_told_when_they_are_sent() -> None:
    rows = [
        row
        for row in cases()
        if row.id in ("retry-after-date.gemini.stream.text", "retry-after-epoch.gemini.stream.text")
    ]
    async with serve(rows, wall_s=lambda: 1_000_000_000.0) as server:
        answers = await fetch_all(server, rows)
    assert {answer.headers["retry-after"] for answer in answers.values()} == {
        "Sun, 09 Sep 2001 01:46:41 GMT",
        "1000000001",
    }


async def test_a_connection_serves_many_requests() -> None:
    row = next(row for row in cases() if row.id == "plain.openai-chat.stream.text")
    request = (
        f"POST /{row.id}/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n".encode()
    )
    async with serve([row]) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.base_url.rsplit(":", 1)[1]))
        for _ in range(3):
            writer.write(request)
            assert (await reader.readuntil(b"[DONE]\n\n\r\n0\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.close()
        assert [seen.body for seen in server.seen(row.id)] == [b"{}"] * 3


async def test_the_server_tells_its_table_and_what_it_saw() -> None:
    rows = cases()[:3]
    async with serve(rows) as server:
        await fetch(server.url(rows[0].id))
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.base_url.rsplit(":", 1)[1]))
        bodies = []
        for line in ("GET /", "GET /-/seen", "POST /-/forget", "GET /-/seen", "GET /nonsense"):
            writer.write(f"{line} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"Content-Length: (\d+)", head)[1])  # type: ignore[index]
            bodies.append(await reader.readexactly(length))
        writer.close()
        table = [json.loads(line) for line in bodies[0].splitlines()]
        assert table == json.loads(json.dumps([row_of(row, server.url(row.id)) for row in rows]))
    assert bodies[1:4] == [f'{{"{rows[0].id}":1}}'.encode(), b"{}", b"{}"]
    assert b"no such case" in bodies[4]


async def test_what_is_asked_about_models_is_no_request_of_the_case() -> None:
    row = next(row for row in cases() if row.id == "plain.ollama.stream.text")
    async with serve([row]) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.base_url.rsplit(":", 1)[1]))
        heads = []
        for path in ("show", "ps", "tags"):
            writer.write(f"POST /{row.id}/api/{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            await reader.readexactly(int(re.search(rb"Content-Length: (\d+)", heads[-1])[1]))  # type: ignore[index]
        writer.close()
        assert server.seen(row.id) == []
    assert [head.split()[1] for head in heads] == [b"404", b"404", b"404"]


async def test_clients_that_leave_leave_nothing_behind() -> None:
    rows = [row for row in cases() if row.fault in ("silent-head", "warm-text", "endless") and not row.once]
    async with serve(rows, pulse_s=PULSE_S) as server:
        await fetch_all(server, rows, noise_s=0.3)
        await asyncio.sleep(PULSE_S * 5)
        assert server._connections == set()


def test_chance_is_the_same_for_the_same_seed() -> None:
    assert list(random_cases(20, seed=1)) == list(random_cases(20, seed=1))
    assert list(random_cases(20, seed=1)) != list(random_cases(20, seed=2))


async def test_chance_delivers_what_it_expects() -> None:
    rows = list(random_cases(300, seed=7))
    async with serve(rows, pulse_s=PULSE_S) as server:
        answers = await fetch_all(server, rows, noise_s=0.6)
    verdicts = Counter(row.expected.verdict for row in rows)
    assert set(verdicts) >= {"complete", "tool_calls", "truncated", "transport", "stall"}
    for row in rows:
        body = answers[row.id].body
        said = read(row.dialect, whole_events(row.dialect, body))
        assert (row.expected.text or "").startswith(said.text) or said.text == row.expected.text, row.id
        assert said.text == row.expected.text, row.id


def whole_events(dialect: str, body: bytes) -> Answer:
    end = b"\n" if SPEAKERS[dialect].framing == "ndjson" else b"\n\n"  # type: ignore[index]
    kept = body.replace(b": keepalive\n\n", b"").rpartition(end)[0] + end
    return Answer(body=kept)


async def test_it_runs_alone() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "turnwright.testing.faults",
        "--pulse",
        "0.1",
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    assert process.stdout is not None
    try:
        lines = [json.loads(await asyncio.wait_for(process.stdout.readline(), 30)) for _ in range(len(cases()))]
        answer = await fetch(lines[0]["url"])
        assert answer.status == 200
        assert [line["id"] for line in lines] == [row.id for row in cases()]
    finally:
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 10) == 0
