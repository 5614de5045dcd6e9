from __future__ import annotations

import asyncio
import gzip
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_server import LAST_CHUNK, STREAM_HEAD, chunk, raw_server, saying

from turnwright.schema.errors import InputError
from turnwright.schema.masking import Masker
from turnwright.schema.settings import Timers
from turnwright.testing.clock import FakeClock
from turnwright.wire.capture import Cassette, Chunk, Recording, read_cassette, write_cassette
from turnwright.wire.connection import Head
from turnwright.wire.exchange import Ended, Exchange
from turnwright.wire.http import HttpClient, Request
from turnwright.wire.playback import Playback
from turnwright.wire.sse import SseEvent

SECRET = "planted-Secret-0123456789"
MASK = Masker([SECRET]).encoded
SSE_HEAD = Head(200, (("content-type", "text/event-stream"),))


def a_cassette(*chunks: bytes, head: Head | None = SSE_HEAD, **more: object) -> Cassette:
    request = Request(method="POST", url="http://h/v1/x", headers=(("Accept", "a"),), body=b'{"a":1}')
    pieces = tuple(Chunk(10.0 * number, data) for number, data in enumerate(chunks, 1))
    cassette = Cassette(request=request, asked="sse", head=head, head_ms=5.0, chunks=pieces, how="eof", ended_ms=100.0)
    return msgspec.structs.replace(cassette, **more)


def unmasked(data: bytes) -> bytes:
    return data


@pytest.mark.parametrize(
    "cassette",
    [
        a_cassette(b"data: 1\n\n", b"data: \xc3", b"\xa9\n\n", labels={"route": "r"}),
        a_cassette(b"\xff\x00"),
        a_cassette(head=None, head_ms=0.0, how="transport", detail="no connection"),
        a_cassette(b"data: 1\n\n", how="stall", stall="gap", dropped_bytes=7),
        a_cassette(b"", how=""),
        a_cassette(b"{}", asked=None),
    ],
)
def test_what_is_written_is_read(cassette: Cassette) -> None:
    assert read_cassette(write_cassette(cassette, unmasked)) == cassette


@given(st.lists(st.binary(max_size=30), max_size=6), st.binary(max_size=30))
def test_any_bytes_survive(chunks: list[bytes], body: bytes) -> None:
    cassette = a_cassette(*chunks, request=Request(method="POST", url="http://h/", body=body))
    assert read_cassette(write_cassette(cassette, unmasked)) == cassette


def test_the_file_is_lines_of_json() -> None:
    lines = [json.loads(line) for line in write_cassette(a_cassette(b"data: 1\n\n", b"\xff"), unmasked).splitlines()]
    request = {"method": "POST", "url": "http://h/v1/x", "headers": [["Accept", "a"]], "text": '{"a":1}'}
    assert lines == [
        {"cassette": 1, "labels": {}, "asked": "sse", "request": request},
        {"at_ms": 5.0, "status": 200, "headers": [["content-type", "text/event-stream"]]},
        {"at_ms": 10.0, "text": "data: 1\n\n"},
        {"at_ms": 20.0, "base64": "/w=="},
        {"at_ms": 100.0, "ended": "eof", "stall": None, "detail": "", "dropped_bytes": 0},
    ]


def test_no_secret_is_written_wherever_it_stands_and_however_it_is_cut() -> None:
    body = f'data: {{"t":"the key is {SECRET}, keep it"}}\n\ndata: [DONE]\n\n'.encode()
    request = Request(
        method="POST",
        url=f"http://h/v1?key={SECRET}&a=1",
        headers=(("Authorization", f"Bearer {SECRET}"), ("x-api-key", "AbCdEfGhIjKlMn"), ("X-Note", f"so {SECRET}")),
        body=json.dumps({"text": SECRET}).encode(),
    )
    head = Head(200, (("content-type", "text/event-stream"), ("set-cookie", f"sid={SECRET}"), ("x", SECRET)))
    for size in (1, 7, 1_000):
        chunks = [body[at : at + size] for at in range(0, len(body), size)]
        cassette = a_cassette(*chunks, request=request, head=head, detail=f"said {SECRET}", labels={"l": SECRET})
        written = write_cassette(cassette, MASK)
        assert SECRET.encode() not in written and b"AbCdEfGhIjKlMn" not in written
        again = read_cassette(written)
        shown = b"".join(piece.data for piece in again.chunks)
        assert SECRET.encode() not in shown and b"keep it" in shown and len(again.chunks) == len(chunks)
        assert [piece.at_ms for piece in again.chunks] == [piece.at_ms for piece in cassette.chunks]


@pytest.mark.parametrize("body", [gzip.compress(f'data: {{"t":"{SECRET}"}}\n\n'.encode(), mtime=0), b"not gzip"])
def test_a_compressed_body_is_kept_plain_so_that_it_can_be_masked(body: bytes) -> None:
    head = Head(200, (("content-type", "text/event-stream"), ("content-encoding", "gzip")))
    again = read_cassette(write_cassette(a_cassette(body[:10], body[10:], head=head), MASK))
    assert again.head == SSE_HEAD
    shown = b"".join(piece.data for piece in again.chunks)
    assert SECRET.encode() not in shown and (b"data:" in shown or b"not kept" in shown)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b"{}\n", "Line 1"),
        (b"nonsense\n", "Line 1"),
        (b'{"cassette":9,"request":{"method":"a","url":"b","headers":[]}}\n', "version 9"),
        (b'{"cassette":1,"request":{"method":"a","url":"b","headers":[]}}\n\n{"at_ms":"x"}\n', "Line 3"),
        (b'{"cassette":1,"request":{"method":"a","url":"b","headers":[]}}\n\xff\n', "Line 2"),
    ],
)
def test_what_is_no_cassette(data: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_cassette(data)


def test_a_file_that_was_cut_off_is_read_as_far_as_it_goes() -> None:
    written = write_cassette(a_cassette(b"data: 1\n\n", b"data: 2\n\n"), unmasked)
    assert read_cassette(b"\n".join(written.split(b"\n")[:3])) == a_cassette(b"data: 1\n\n", how="", ended_ms=0.0)


def test_what_is_kept_is_bounded() -> None:
    recording = Recording(kept_bytes_max=10)
    recording.sent(Request(method="POST", url="http://h/"), "sse", 1.0)
    for _ in range(4):
        recording.chunk(b"1234", 1.5)
    cassette = recording.cassette({})
    assert (cassette.chunks, cassette.dropped_bytes) == ((Chunk(500.0, b"1234"),) * 2, 8)
    assert not Recording().begun


async def test_what_was_recorded_plays_the_same() -> None:
    body = STREAM_HEAD + chunk(b"data: 1\n\ndata:") + chunk(b" 2\n\n") + LAST_CHUNK
    recording = Recording()
    async with asyncio.timeout(5), raw_server(saying(body)) as port, HttpClient() as client:
        request = Request(method="POST", url=f"http://127.0.0.1:{port}/")
        exchange = Exchange(client, request, asked="sse", clock=FakeClock(), timers=Timers(), recorder=recording)
        live = [frame for frames in iter([await exchange.read(), await exchange.read()]) for frame in frames or ()]
    cassette = recording.cassette({"route": "r"})
    assert cassette.how == "eof"
    player = Playback(read_cassette(write_cassette(cassette, unmasked)))
    played: list[object] = []
    while (frames := await player.read()) is not None:
        played += frames
    assert played == live == [SseEvent(b"1"), SseEvent(b"2")]
    assert player.ended is not None and player.ended.how == "eof"


@pytest.mark.parametrize(
    ("cassette", "frames", "how"),
    [
        (a_cassette(b"data: 1\n\n", b"data: 2"), [SseEvent(b"1"), SseEvent(b"2", complete=False)], "eof"),
        (a_cassette(b"data: 1\n\n", how="stall", stall="gap"), [SseEvent(b"1")], "stall"),
        (a_cassette(b"data: 1\n\n", how="transport"), [SseEvent(b"1")], "transport"),
        (a_cassette(b"data: 1\n\n", how=""), [SseEvent(b"1")], "transport"),
        (a_cassette(head=None, how="transport"), [], "transport"),
        (a_cassette(b"<html>", how="interstitial"), [], "interstitial"),
        (a_cassette(b"busy", head=Head(503, ()), how="http_error"), [], "http_error"),
        (a_cassette(b"data: " + b"x" * 9_000_000, how="too_large"), [], "too_large"),
        (a_cassette(how="non_json"), [], "non_json"),
    ],
)
async def test_playing(cassette: Cassette, frames: list[SseEvent], how: str) -> None:
    player = Playback(cassette)
    played: list[object] = []
    while (batch := await player.read()) is not None:
        played += batch
    assert (played, player.ended and player.ended.how) == (frames, how)
    assert await player.read() is None


async def test_at_its_own_speed() -> None:
    clock = FakeClock(auto=True)
    player = Playback(a_cassette(b"data: 1\n\n", b"data: 2\n\n"), clock=clock, speed=2.0)
    times = []
    while await player.read() is not None:
        times.append(round(clock.monotonic(), 4))
    assert (times, round(clock.monotonic(), 4)) == ([0.005, 0.01], 0.05)


async def test_leaving_a_played_reply() -> None:
    player = Playback(a_cassette(b"data: 1\n\n", b"data: 2\n\n"))
    await player.read()
    player.leave()
    assert await player.read() is None
    assert player.ended == Ended(how="eof", bytes_in=18)
