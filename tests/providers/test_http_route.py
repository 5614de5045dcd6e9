"""Attempts over real sockets. The whole table of faults is met elsewhere, through `turnwright run`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

import msgspec
import pytest
from raw_server import LAST_CHUNK, STREAM_HEAD, Handler, chunk, raw_server, read_request, response

from turnwright.providers.dialects import codec_of
from turnwright.providers.endpoint import Endpoint
from turnwright.providers.http_route import FIRST_FRAMES, Captured, HttpModel, HttpRoute, ReplyReader
from turnwright.schema.messages import UserMessage
from turnwright.schema.parts import Closed, Done, Finish, Part, Start, StreamError, Text
from turnwright.schema.prompt import Prompt, Section
from turnwright.schema.routes import Route
from turnwright.schema.settings import Timers
from turnwright.testing.clock import FakeClock
from turnwright.wire.capture import Cassette
from turnwright.wire.http import HttpClient
from turnwright.wire.playback import Playback

ROUTE = Route(name="r", model="m")
PROMPT = Prompt(lineage="l", system=(Section("role", "Be brief."),), messages=[UserMessage(text="hello")])


def delta(text: str | None, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {} if text is None else {"content": text}, "finish_reason": finish}
    return b"data: " + msgspec.json.encode({"id": "c1", "model": "m1", "choices": [choice]}) + b"\n\n"


DONE = b"data: [DONE]\n\n"
WHOLE = msgspec.json.encode(
    {"id": "c1", "model": "m1", "choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}
)


@asynccontextmanager
async def model_at(handler: Handler, *, captured: Captured | None = None) -> AsyncIterator[HttpModel]:
    async with asyncio.timeout(20), raw_server(handler) as port, HttpClient() as client:
        endpoint = Endpoint(base_url=f"http://127.0.0.1:{port}/v1", key="k" * 20)
        routes = {"r": HttpRoute(endpoint=endpoint, codec=codec_of("openai-chat"))}
        yield HttpModel(
            client,
            routes,
            clock=FakeClock(),
            wall_s=lambda: 1_700_000_000.0,
            timers=Timers(),
            agent="turnwright/test",
            captured=captured,
        )


async def parts_of(model: HttpModel, prompt: Prompt = PROMPT, *, stream: bool = True) -> list[Part]:
    route = msgspec.structs.replace(ROUTE, stream=stream)
    return [part async for parts in model.attempt(route, prompt) for part in parts]


def answering(*pieces: bytes, seen: list[bytes] | None = None, pause_s: float = 0.0) -> Handler:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await read_request(reader)
            if seen is not None:
                seen.append(request)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause_s)

    return handler


GOOD = (STREAM_HEAD, chunk(delta("Hel")), chunk(delta("lo")), chunk(delta(None, "stop") + DONE), LAST_CHUNK)
SAID = [Start(model="m1", response_id="c1"), Text("Hel"), Text("lo"), Finish(raw="stop", finish="stop"), Done()]


async def test_a_stream_becomes_parts_and_always_closes() -> None:
    seen: list[bytes] = []
    async with model_at(answering(*GOOD, seen=seen)) as model:
        *said, closed = await parts_of(model)
    assert said == SAID
    assert isinstance(closed, Closed) and (closed.how, closed.status) == ("eof", 200)
    head, _, body = seen[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer " + b"k" * 20 in head and b"\r\nUser-Agent: turnwright/test\r\n" in head
    assert msgspec.json.decode(body)["messages"][-1] == {"role": "user", "content": "hello"}


async def test_batches_follow_the_network() -> None:
    batches: list[Sequence[Part]] = []
    async with (
        model_at(answering(STREAM_HEAD, chunk(delta("a") + delta("b")), chunk(delta("c")), pause_s=0.05)) as model,
        aclosing(model.attempt(ROUTE, PROMPT)) as attempt,
    ):
        async for parts in attempt:
            batches.append(parts)
            if len(batches) == 2:
                break
    assert [list(batch) for batch in batches] == [
        [Start(model="m1", response_id="c1"), Text("a"), Text("b")],
        [Text("c")],
    ]


async def test_the_first_words_do_not_wait_for_a_long_batch_behind_them() -> None:
    many = b"".join(delta(str(number % 10)) for number in range(300))
    async with model_at(answering(STREAM_HEAD, chunk(many + DONE), LAST_CHUNK)) as model:
        batches = [parts async for parts in model.attempt(ROUTE, PROMPT)]
    assert len(batches[0]) <= FIRST_FRAMES + 1
    assert "".join(part.text for parts in batches for part in parts if isinstance(part, Text)) == "0123456789" * 30


@pytest.mark.parametrize(
    ("stream", "body"), [(True, response(WHOLE)), (False, response(WHOLE)), (False, b"".join(GOOD))]
)
async def test_a_document_or_a_stream_is_read_whatever_was_asked(stream: bool, body: bytes) -> None:
    async with model_at(answering(body)) as model:
        parts = await parts_of(model, stream=stream)
    assert "".join(part.text for part in parts if isinstance(part, Text)) in ("Hi", "Hello")
    assert Done() in parts and isinstance(parts[-1], Closed)


async def test_a_document_is_asked_for_as_one() -> None:
    seen: list[bytes] = []
    async with model_at(answering(response(WHOLE), seen=seen)) as model:
        await parts_of(model, stream=False)
    assert b'"stream":true' not in seen[0] and b"Accept: application/json; charset=utf-8" in seen[0]


async def test_a_status_says_what_went_wrong_and_how_long_to_wait() -> None:
    body = b'{"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}'
    extra = "Retry-After: 7\r\nx-request-id: req_1\r\n"
    async with model_at(answering(response(body, status="429 Too Many", extra=extra))) as model:
        error, closed = await parts_of(model)
    assert isinstance(error, StreamError) and isinstance(closed, Closed)
    assert (error.kind, error.status, error.message) == ("rate_limit", 429, "slow down")
    assert (closed.how, closed.status, closed.retry_after_s, closed.request_id) == ("http_error", 429, 7.0, "req_1")
    assert closed.excerpt == body.decode()


async def test_nobody_there() -> None:
    async with HttpClient() as client:
        route = HttpRoute(endpoint=Endpoint(base_url="http://127.0.0.1:9"), codec=codec_of("openai-chat"))
        model = HttpModel(client, {"r": route}, clock=FakeClock(), wall_s=lambda: 0.0, timers=Timers(), agent="a")
        (closed,) = await parts_of(model)
    assert isinstance(closed, Closed)
    assert (closed.how, closed.status, "127.0.0.1:9" in closed.detail) == ("transport", None, True)


async def test_the_terminal_frame_ends_the_reading_and_the_connection_is_kept() -> None:
    """A server that is late with the end of its body costs nothing."""
    connections = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1

        while True:
            await read_request(reader)
            for piece in GOOD[:-1]:
                writer.write(piece)
            await asyncio.sleep(0.02)
            writer.write(LAST_CHUNK)

    async with model_at(handler) as model:
        for _ in range(3):
            assert (await parts_of(model))[:-1] == SAID
            await asyncio.sleep(0.05)
    assert connections == 1


async def test_an_error_in_the_stream_ends_the_reading() -> None:
    error = b'data: {"error":{"message":"overloaded","code":503}}\n\n'
    async with model_at(answering(STREAM_HEAD, chunk(delta("a")), chunk(error))) as model:
        parts = await parts_of(model)
    assert [type(part) for part in parts] == [Start, Text, StreamError, Closed]


@pytest.mark.parametrize("cancel", [False, True])
async def test_hanging_up_is_seen_by_the_server_at_once(cancel: bool) -> None:
    gone = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(STREAM_HEAD + chunk(delta("a")))
        await reader.read()
        gone.set()

    heard: list[Cassette] = []
    async with model_at(handler, captured=lambda lineage, cassette: heard.append(cassette())) as model:
        attempt = model.attempt(ROUTE, PROMPT)
        await anext(attempt)
        if cancel:
            waiting = asyncio.ensure_future(anext(attempt))
            await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        else:
            await attempt.aclose()
        await asyncio.wait_for(gone.wait(), 0.5)
    assert [(one.how, len(one.chunks)) for one in heard] == [("", 1)]


async def test_what_was_captured_gives_the_same_parts() -> None:
    heard: list[tuple[str, Cassette]] = []
    async with model_at(
        answering(*GOOD), captured=lambda lineage, cassette: heard.append((lineage, cassette()))
    ) as model:
        parts = await parts_of(model)
    ((lineage, cassette),) = heard
    assert (lineage, cassette.labels) == ("l", {"route": "r", "dialect": "openai-chat", "model": "m"})
    reply = ReplyReader(Playback(cassette), codec_of("openai-chat"))
    again: list[Part] = []
    while (batch := await reply.read()) is not None:
        again += batch
    assert again == parts[:-1]


async def test_many_attempts_at_once() -> None:
    async with model_at(answering(*GOOD, pause_s=0.001)) as model:
        prompts = [msgspec.structs.replace(PROMPT, lineage=str(number)) for number in range(50)]
        results = await asyncio.gather(*(parts_of(model, prompt) for prompt in prompts))
    assert all(parts[:-1] == SAID for parts in results)
