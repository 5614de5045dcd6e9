"""What an Ollama server is asked about its model, and what becomes of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from raw_server import raw_server, read_request, response

from turnwright.app.clock import SystemClock
from turnwright.providers import catalogue_ollama
from turnwright.providers.catalogue import Known
from turnwright.providers.catalogue_ollama import OllamaServer
from turnwright.providers.catalogue_routes import AskingAttempts, RouteFacts
from turnwright.providers.codec import Quirks
from turnwright.providers.dialects import codec_of
from turnwright.providers.endpoint import Endpoint
from turnwright.schema.parts import Closed, Part, Text
from turnwright.schema.prompt import Prompt
from turnwright.schema.routes import Price, Route
from turnwright.wire.http import HttpClient

SHOWN: dict[str, Any] = {
    "parameters": 'stop    "<end>"\nnum_ctx                        8192\n',
    "capabilities": ["completion", "tools", "thinking"],
    "model_info": {"llama.context_length": 131072},
}
RUNNING = {"models": [{"name": "other:latest", "context_length": 1}, {"name": "m:latest", "context_length": 4096}]}


class Ollama:
    """Answers by path; a path without an answer is 404, None is silence."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.requests: list[tuple[str, bytes]] = []

    @asynccontextmanager
    async def served(self, base: str = "", **endpoint: Any) -> AsyncIterator[OllamaServer]:
        async with asyncio.timeout(20), raw_server(self._handle) as port, HttpClient() as client:
            at = Endpoint(base_url=f"http://127.0.0.1:{port}{base}", **endpoint)
            yield OllamaServer(client, at, codec_of("ollama"), "m", clock=SystemClock(), agent="test")

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _, body = (await read_request(reader)).partition(b"\r\n\r\n")
            line = head.partition(b" HTTP")[0].decode()
            self.requests.append((line, body))
            answer = self.answers.get(line.partition(" ")[2].removeprefix("/sub"), b"")
            if answer is None:
                await asyncio.sleep(20)
            elif answer == b"":
                writer.write(response(b"{}", status="404 Not Found"))
            else:
                writer.write(response(answer if isinstance(answer, bytes) else msgspec.json.encode(answer)))


ABLE: dict[str, Any] = {"tools": True, "images": False, "reasoning": True}


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"/api/show": SHOWN, "/api/ps": RUNNING}, Known(id="m", window=4096, **ABLE)),
        ({"/api/show": SHOWN, "/api/ps": {"models": []}}, Known(id="m", window=8192, **ABLE)),
        ({"/api/show": SHOWN}, Known(id="m", window=8192, **ABLE)),
        ({"/api/show": {"model_info": SHOWN["model_info"]}, "/api/ps": RUNNING}, Known(id="m", window=4096)),
        ({"/api/show": {"model_info": SHOWN["model_info"]}}, Known(id="m")),
        ({"/api/show": {"parameters": "num_ctx many", "capabilities": "all"}}, Known(id="m")),
        (
            {"/api/show": {"parameters": 3}, "/api/ps": {"models": [3, {"name": "m", "context_length": "x"}]}},
            Known(id="m"),
        ),
        ({"/api/show": b"[" * 5000, "/api/ps": b"<html>"}, Known(id="m")),
        ({"/api/show": b"[]"}, Known(id="m")),
        ({}, Known(id="m")),
    ],
)
async def test_what_the_server_says(answers: dict[str, Any], expected: Known) -> None:
    async with Ollama(answers).served() as server:
        assert await server.known() == expected


async def test_the_window_that_we_ask_for_comes_first() -> None:
    quirks = Quirks(extra_body={"options": {"num_ctx": 2048}})
    async with Ollama({"/api/show": SHOWN, "/api/ps": RUNNING}).served(quirks=quirks) as server:
        assert (await server.known()).window == 2048


@pytest.mark.parametrize("base", ["", "/sub", "/sub/api/chat"])
async def test_requests_go_below_the_address(base: str) -> None:
    ollama = Ollama({"/api/show": SHOWN})
    async with ollama.served(base) as server:
        await server.known()
    below = "/sub" if base else ""
    assert ollama.requests == [(f"POST {below}/api/show", b'{"model":"m"}'), (f"GET {below}/api/ps", b"")]


async def test_a_server_that_is_silent_or_gone_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    short = msgspec.structs.replace(catalogue_ollama.PATIENCE, first_byte_s=0.05, gap_s=0.05, total_s=0.1)
    monkeypatch.setattr(catalogue_ollama, "PATIENCE", short)
    async with Ollama({"/api/show": None, "/api/ps": None}).served() as server:
        assert await server.known() == Known(id="m")
    assert await server.known() == Known(id="m")


# On the way to the router


class Echo:
    """Attempts that say which route they were asked for."""

    def __init__(self, how: Any = "eof") -> None:
        self.how = how

    async def attempt(self, route: Route, prompt: Prompt) -> AsyncGenerator[Sequence[Part], None]:
        yield [Text(route.name)]
        yield [Closed(how=self.how)]


PROMPT = Prompt(lineage="l", system=(), messages=[])
PRICE = Price(input=1, output=2)


async def said_by(attempts: AskingAttempts, name: str) -> list[Part]:
    return [part async for parts in attempts.attempt(Route(name=name, model="m"), PROMPT) for part in parts]


async def test_a_route_learns_its_window_before_its_first_attempt_or_after_it() -> None:
    facts = RouteFacts({"a": Known(id="m"), "b": Known(id="m", window=5, tools=True)}, lambda: 0.0)
    answers = [Known(id="m"), Known(id="m", window=7, tools=False)]
    asked: list[str] = []

    async def ask() -> Known:
        asked.append("a")
        return answers[len(asked) - 1]

    attempts = AskingAttempts(Echo(), facts, {"a": ask, "b": ask})
    await attempts.learn("a")
    assert facts(Route(name="a", model="m")) == Route(name="a", model="m")
    assert await said_by(attempts, "a") == [Text("a"), Closed(how="eof")]
    assert facts(Route(name="a", model="m")) == Route(name="a", model="m", window=7, tools=False)
    await said_by(attempts, "a")
    await said_by(attempts, "b")  # its window is the user's
    await said_by(attempts, "c")
    assert asked == ["a", "a"]
    assert facts(Route(name="c", model="m")) == Route(name="c", model="m")


async def test_what_the_user_says_stays() -> None:
    facts = RouteFacts({"a": Known(id="m", tools=True)}, lambda: 0.0)
    facts.add("a", Known(id="m", window=7, tools=False, images=False))
    assert facts(Route(name="a", model="m")) == Route(name="a", model="m", window=7, tools=True, images=False)
