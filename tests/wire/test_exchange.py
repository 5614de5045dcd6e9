"""One exchange under a clock that only moves when told: what each silence is called, and when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from raw_server import LAST_CHUNK, STREAM_HEAD, Handler, chunk, raw_server, read_request, response, saying

from turnwright.schema.errors import InputError
from turnwright.schema.frames import Frame
from turnwright.schema.settings import Timers
from turnwright.testing.clock import FakeClock
from turnwright.wire.connection import Connection, Fault, Head
from turnwright.wire.exchange import FINISHED_GRACE_S, REFUSED_GRACE_S, Ended, Exchange
from turnwright.wire.gate import Framing
from turnwright.wire.http import HttpClient, Request
from turnwright.wire.sse import SseEvent
from turnwright.wire.url import Origin

TIMERS = Timers(connect_s=10, first_byte_s=60, gap_s=120, total_s=600)


class Stage:
    """A server that does what the test tells it, when it does."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()
        self.requests: list[bytes] = []
        self.writer: asyncio.StreamWriter | None = None

    async def handler(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        while True:
            try:
                self.requests.append(await read_request(reader))
            except (ConnectionError, asyncio.IncompleteReadError):
                self.gone.set()
                return
            self.asked.set()

    async def say(self, data: bytes) -> None:
        await asyncio.wait_for(self.asked.wait(), 5)
        assert self.writer is not None
        self.writer.write(data)
        await self.writer.drain()
        await asyncio.sleep(0.01)  # real time, for the bytes to cross


@asynccontextmanager
async def staged(
    *, asked: Framing | None = "sse", timers: Timers = TIMERS
) -> AsyncIterator[tuple[Stage, Exchange, FakeClock]]:
    stage, clock = Stage(), FakeClock()
    async with asyncio.timeout(20), raw_server(stage.handler) as port, HttpClient() as client:
        request = Request(method="POST", url=f"http://127.0.0.1:{port}/", body=b"{}")
        exchange = Exchange(client, request, asked=asked, clock=clock, timers=timers)
        try:
            yield stage, exchange, clock
        finally:
            exchange.close()
        assert clock.pending == []


async def read_all(exchange: Exchange, progress: Callable[[Frame], bool] = lambda frame: True) -> list[Frame]:
    """Every frame; those that `progress` accepts are called progress."""
    found: list[Frame] = []
    while (frames := await exchange.read()) is not None:
        found += frames
        if any(progress(frame) for frame in frames):
            exchange.progressed()
    return found


async def later(clock: FakeClock, seconds: float) -> None:
    await clock.advance(seconds)
    await asyncio.sleep(0.01)


async def test_a_stream_from_its_first_byte_to_its_end() -> None:
    async with staged() as (stage, exchange, _):
        reading = asyncio.create_task(exchange.read())
        await stage.say(STREAM_HEAD + chunk(b"data: 1\n\ndata: 2\n\n") + chunk(b"data: 3\n\ndata:"))
        assert await reading == [SseEvent(b"1"), SseEvent(b"2"), SseEvent(b"3")]  # one arrival, one batch
        assert exchange.head == Head(200, (("content-type", "text/event-stream"), ("transfer-encoding", "chunked")))
        assert exchange.reading == "sse"
        await stage.say(chunk(b" 4\n\n") + LAST_CHUNK)
        assert await exchange.read() == [SseEvent(b"4")]
        assert await exchange.read() is None
        assert exchange.ended is not None and exchange.ended.how == "eof"
        assert await exchange.read() is None


async def test_a_document_is_one_frame() -> None:
    async with staged(asked=None) as (stage, exchange, _):
        reading = asyncio.create_task(read_all(exchange))
        await stage.say(response(b'{"a": 1}'))
        assert await reading == [Frame(b'{"a": 1}')]
        assert exchange.reading == "json"


@pytest.mark.parametrize("asked", ["sse", None])
async def test_no_headers(asked: Framing | None) -> None:
    limit_s = 60 if asked else 120  # a reply in one piece may take as long as a gap may
    async with staged(asked=asked) as (stage, exchange, clock):
        reading = asyncio.create_task(exchange.read())
        await asyncio.wait_for(stage.asked.wait(), 5)
        await later(clock, limit_s - 1)
        assert not reading.done()
        await later(clock, 1)
        assert await reading is None
        assert exchange.ended is not None
        assert (exchange.ended.how, exchange.ended.stall) == ("stall", "waiting_headers")
        assert f"limit {limit_s} s" in exchange.ended.detail
        await asyncio.wait_for(stage.gone.wait(), 0.5)


async def test_no_first_part() -> None:
    async with staged() as (stage, exchange, clock):
        reading = asyncio.create_task(exchange.read())
        await stage.say(STREAM_HEAD)
        await later(clock, 59)
        assert not reading.done()
        await later(clock, 1)
        assert await reading is None
        assert exchange.ended is not None and exchange.ended.stall == "first_part"


async def test_silence_after_progress() -> None:
    async with staged() as (stage, exchange, clock):
        reading = asyncio.create_task(read_all(exchange))
        await stage.say(STREAM_HEAD)
        await later(clock, 50)
        await stage.say(chunk(b"data: 1\n\n"))
        await later(clock, 119)
        assert not reading.done()
        await later(clock, 1)
        assert await reading == [SseEvent(b"1")]
        assert exchange.ended is not None and exchange.ended.stall == "gap"


@pytest.mark.parametrize("noise", [b": keepalive\n\n", b"data: ping\n\n", b"\n"])
@pytest.mark.parametrize("first", [b"", b"data: 1\n\n"])
async def test_a_stream_that_is_only_kept_warm(noise: bytes, first: bytes) -> None:
    timers = Timers(connect_s=10, first_byte_s=60, gap_s=5, total_s=600)
    async with staged(timers=timers) as (stage, exchange, clock):
        reading = asyncio.create_task(read_all(exchange, lambda frame: frame.data == b"1"))
        await stage.say(STREAM_HEAD + (chunk(first) if first else b""))
        seconds = 0
        while not reading.done():
            await stage.say(chunk(noise))
            await later(clock, 1)
            seconds += 1
            assert seconds <= 6
        assert exchange.ended is not None
        assert (seconds, exchange.ended.stall) == (5, "keepalive_only")


async def test_blanks_do_not_keep_a_document_alive() -> None:
    timers = Timers(connect_s=1, first_byte_s=3, gap_s=5, total_s=600)
    async with staged(asked=None, timers=timers) as (stage, exchange, clock):
        reading = asyncio.create_task(read_all(exchange))
        await stage.say(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n")
        for _ in range(5):
            await stage.say(b" ")
            await later(clock, 1)
        assert await reading == []
        assert exchange.ended is not None and exchange.ended.stall == "keepalive_only"


async def test_slow_progress_is_progress_until_the_total() -> None:
    timers = Timers(connect_s=10, first_byte_s=60, gap_s=5, total_s=30)
    async with staged(timers=timers) as (stage, exchange, clock):
        reading = asyncio.create_task(read_all(exchange))
        await stage.say(STREAM_HEAD)
        for _ in range(7):
            await stage.say(chunk(b"data: 1\n\n"))
            await later(clock, 4)
            assert not reading.done()
        await stage.say(chunk(b"data: 1\n\n"))
        await later(clock, 2)
        assert len(await reading) == 8
        assert exchange.ended is not None and exchange.ended.stall == "total"


async def test_the_time_that_a_reader_takes_is_not_the_servers() -> None:
    timers = Timers(connect_s=1, first_byte_s=2, gap_s=5, total_s=600)
    async with staged(timers=timers) as (stage, exchange, clock):
        reading = asyncio.create_task(exchange.read())
        await stage.say(STREAM_HEAD + chunk(b"data: 1\n\n"))
        assert await reading == [SseEvent(b"1")]
        exchange.progressed()
        await later(clock, 100)  # the journal was slow
        reading = asyncio.create_task(exchange.read())
        await later(clock, 4)
        assert not reading.done()
        await stage.say(chunk(b"data: 2\n\n"))
        assert await reading == [SseEvent(b"2")]
        exchange.progressed()
        reading = asyncio.create_task(exchange.read())
        await later(clock, 5)
        assert await reading is None
        assert exchange.ended is not None and exchange.ended.stall == "gap"


async def test_what_had_come_is_given_before_a_stall_is_told() -> None:
    async with staged() as (stage, exchange, clock):
        reading = asyncio.create_task(read_all(exchange))
        await stage.say(STREAM_HEAD + chunk(b"data: 1\n\ndata: 2"))
        await later(clock, 120)
        assert await reading == [SseEvent(b"1"), SseEvent(b"2", complete=False)]
        assert exchange.ended is not None and exchange.ended.how == "stall"


async def test_an_open_end_after_the_finish_is_not_waited_for() -> None:
    async with staged() as (stage, exchange, clock):
        reading = asyncio.create_task(exchange.read())
        await stage.say(STREAM_HEAD + chunk(b"data: finish\n\n"))
        assert await reading == [SseEvent(b"finish")]
        exchange.progressed()
        exchange.finished()
        reading = asyncio.create_task(exchange.read())
        await later(clock, FINISHED_GRACE_S - 1)
        assert not reading.done()
        await later(clock, 1)
        assert await reading is None
        assert exchange.ended is not None and exchange.ended.how == "eof"


async def test_the_rest_of_a_refused_body_is_not_waited_for() -> None:
    async with staged() as (stage, exchange, clock):
        reading = asyncio.create_task(exchange.read())
        await stage.say(STREAM_HEAD + chunk(b"<html>busy"))
        await later(clock, REFUSED_GRACE_S)
        assert await reading is None
        assert exchange.ended is not None
        assert (exchange.ended.how, exchange.ended.body) == ("interstitial", b"<html>busy")


async def test_an_endless_refused_body_is_cut_off() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(STREAM_HEAD + chunk(b"<html>"))
        while True:
            writer.write(chunk(b"x" * 10_000))
            await writer.drain()

    ended = await ended_with(endless)
    assert (ended.how, len(ended.body)) == ("interstitial", 65_536)


async def ended_with(handler: Handler, asked: Framing | None = "sse") -> Ended:
    async with asyncio.timeout(20), raw_server(handler) as port, HttpClient() as client:
        request = Request(method="POST", url=f"http://127.0.0.1:{port}/", body=b"{}")
        exchange = Exchange(client, request, asked=asked, clock=FakeClock(), timers=TIMERS)
        await read_all(exchange)
        assert exchange.ended is not None
        return exchange.ended


@pytest.mark.parametrize(
    ("data", "how", "detail"),
    [
        (response(b'{"error":{}}', status="503 Busy"), "http_error", "503"),
        (response(b"<html>", content_type="text/html"), "interstitial", "text/html"),
        (response(b"", content_type="text/event-stream"), "non_json", "empty"),
        (response(b"x", extra="Content-Encoding: br\r\n"), "non_json", "br"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "transport", "inside the body"),
        (b"", "transport", "without an answer"),
        (STREAM_HEAD + chunk(b"data: " + b"x" * 8_500_000), "too_large", "too large"),
        (STREAM_HEAD + LAST_CHUNK, "non_json", "empty"),
    ],
)
async def test_how_it_ended(data: bytes, how: str, detail: str) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(data)
        await writer.drain()

    ended = await ended_with(handler)
    assert (ended.how, detail in ended.detail) == (how, True)


async def test_closing_hangs_up_at_once() -> None:
    async with staged() as (stage, exchange, _):
        reading = asyncio.create_task(exchange.read())
        await stage.say(STREAM_HEAD + chunk(b"data: 1\n\n"))
        await reading
        exchange.close()
        await asyncio.wait_for(stage.gone.wait(), 0.5)


@pytest.mark.parametrize("said", [b"", STREAM_HEAD])
async def test_a_cancelled_read_hangs_up_at_once(said: bytes) -> None:
    async with staged() as (stage, exchange, _):
        reading = asyncio.create_task(exchange.read())
        await stage.say(said)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.wait_for(stage.gone.wait(), 0.5)


async def test_leaving_gives_the_connection_back() -> None:
    """After the terminal frame; the end of the body may come a little later."""
    ports: list[object] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports.append(writer.get_extra_info("peername"))
        while True:
            await read_request(reader)
            writer.write(STREAM_HEAD + chunk(b"data: [DONE]\n\n"))
            await asyncio.sleep(0.02)
            writer.write(LAST_CHUNK)

    async with asyncio.timeout(10), raw_server(handler) as port, HttpClient() as client:
        for _ in range(3):
            request = Request(method="POST", url=f"http://127.0.0.1:{port}/")
            exchange = Exchange(client, request, asked="sse", clock=FakeClock(), timers=TIMERS)
            assert await exchange.read() == [SseEvent(b"[DONE]")]
            exchange.leave()
            assert exchange.ended is not None and exchange.ended.how == "eof"
            assert await exchange.read() is None
            await asyncio.sleep(0.05)
    assert len(ports) == 1


class HangingClient(HttpClient):
    """Its connections take until they are told."""

    def __init__(self) -> None:
        super().__init__()
        self.dialled = asyncio.Event()
        self.let = asyncio.Event()
        self.cancelled = False

    async def dial(self, origin: Origin, now: Callable[[], float]) -> Connection | Fault:
        self.dialled.set()
        try:
            await self.let.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return await super().dial(origin, now)


async def test_no_connection_in_time() -> None:
    clock = FakeClock()
    async with asyncio.timeout(5), HangingClient() as client:
        request = Request(method="POST", url="http://127.0.0.1:9/")
        exchange = Exchange(client, request, asked="sse", clock=clock, timers=TIMERS)
        reading = asyncio.create_task(exchange.read())
        await client.dialled.wait()
        await clock.advance(10)
        assert await reading is None
        assert exchange.ended is not None
        assert (exchange.ended.how, exchange.ended.stall, client.cancelled) == ("stall", "connect", True)


@pytest.mark.parametrize("late", [False, True])
async def test_cancelled_while_connecting_leaves_nothing_behind(late: bool) -> None:
    stage = Stage()
    async with asyncio.timeout(5), raw_server(stage.handler) as port, HangingClient() as client:
        request = Request(method="POST", url=f"http://127.0.0.1:{port}/")
        exchange = Exchange(client, request, asked="sse", clock=FakeClock(), timers=TIMERS)
        reading = asyncio.create_task(exchange.read())
        await client.dialled.wait()
        if late:
            client.let.set()
            while not client._open:
                await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert client._open == set()


async def test_an_address_that_is_none() -> None:
    async with HttpClient() as client:
        with pytest.raises(InputError):
            Exchange(client, Request(method="POST", url="nope"), asked=None, clock=FakeClock(), timers=TIMERS)


async def test_a_recorder_hears_everything() -> None:
    heard: list[object] = []

    class Recorder:
        def sent(self, request: Request, asked: Framing | None, at_s: float) -> None:
            heard.append((request.method, asked))

        def head(self, head: Head, at_s: float) -> None:
            heard.append(head.status)

        def chunk(self, data: bytes, at_s: float) -> None:
            heard.append(data)

        def ended(self, ended: Ended, at_s: float) -> None:
            heard.append(ended.how)

    data = STREAM_HEAD + chunk(b"data: 1\n\n") + LAST_CHUNK
    async with asyncio.timeout(10), raw_server(saying(data)) as port, HttpClient() as client:
        request = Request(method="POST", url=f"http://127.0.0.1:{port}/")
        exchange = Exchange(client, request, asked="sse", clock=FakeClock(), timers=TIMERS, recorder=Recorder())
        await read_all(exchange)
    assert heard == [("POST", "sse"), 200, b"data: 1\n\n", "eof"]
