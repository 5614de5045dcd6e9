"""Servers at an address that misbehave, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import resource
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from serving import Ask, Serving, names

from turnwright.schema.mcp import McpServer

SAY = "mcp__s__say"
TOOL = {"name": "say", "inputSchema": {"type": "object", "properties": {"word": {"type": "string"}}}}


class Site:
    """Speaks just enough; `way` is how it answers a call."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.heads: list[str] = []
        self.tasks: set[asyncio.Task[object]] = set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            await self.speak(reader, writer)
        finally:
            writer.transport.abort()

    async def speak(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                length = [line for line in head.lower().splitlines() if line.startswith("content-length:")]
                body = await reader.readexactly(int(length[0].split(":")[1])) if length else b""
                await self.answer(writer, head, json.loads(body) if body else {})

    async def answer(self, writer: asyncio.StreamWriter, head: str, asked: dict[str, object]) -> None:
        if self.way == "401":
            return self.send(writer, "401 Unauthorized", b"who are you?", "content-type: text/plain")
        if not head.startswith("POST") or "id" not in asked:
            return self.send(writer, "405 Method Not Allowed" if head.startswith("GET") else "202 Accepted", b"")
        match asked["method"]:
            case "initialize":
                about = {"name": "site", "version": "1"}
                result: object = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": about,
                }
            case "tools/list":
                result = {"tools": [TOOL]}
            case "tools/call":
                return await self.call(writer, asked)
            case _:
                return self.reply(writer, {"id": asked["id"], "error": {"code": -32601, "message": "no"}})
        return self.reply(writer, {"id": asked["id"], "result": result})

    async def call(self, writer: asyncio.StreamWriter, asked: dict[str, object]) -> None:
        packed = gzip.compress(b"x" * 50_000_000)
        match self.way:
            case "huge" | "huge-event":
                kind = "text/event-stream" if self.way == "huge-event" else "application/json"
                writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: 2147483648\r\n\r\n".encode())
                writer.write(b"event: message\ndata: " if self.way == "huge-event" else b"")
                for _ in range(2_048):
                    writer.write(b"x" * 1024 * 1024)
                    await writer.drain()
            case "packed":
                self.send(writer, "200 OK", packed, "content-type: application/json", "content-encoding: gzip")
            case "hang":
                await asyncio.sleep(100)
            case "elsewhere":
                self.send(writer, "307 Temporary Redirect", b"", "location: http://127.0.0.2:9/")
            case _:
                content = [{"type": "text", "text": "said"}]
                self.reply(writer, {"id": asked["id"], "result": {"content": content}})

    def reply(self, writer: asyncio.StreamWriter, message: dict[str, object]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.send(writer, "200 OK", body, "content-type: application/json")

    @staticmethod
    def send(writer: asyncio.StreamWriter, status: str, body: bytes, *headers: str) -> None:
        lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)


@asynccontextmanager
async def site(way: str) -> AsyncIterator[tuple[Site, str]]:
    made = Site(way)
    server = await asyncio.start_server(made, "127.0.0.1", 0)
    try:
        yield made, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()
        for task in made.tasks:
            task.cancel()
        await asyncio.gather(*made.tasks, return_exceptions=True)


async def test_it_is_called_with_the_headers_it_needs(serving: Serving, ask: Ask) -> None:
    async with site("") as (there, url):
        await serving.ready(settings=McpServer(url=url, headers={"X-Team": "blue"}))
        _, toolbox = serving.offer()
        assert (await ask(toolbox, SAY, word="hi")).output == "said"
        assert all("x-team: blue" in head.lower() for head in there.heads)
        await serving.close()


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("huge", "it sent a message of more than 16 MiB"),
        ("huge-event", "exceed"),
        ("packed", "it sent a packed answer, which was not asked for"),
        ("elsewhere", "Redirect to http://127.0.0.2:9/ not followed"),
    ],
)
async def test_what_no_client_can_bear_fails_the_call(serving: Serving, ask: Ask, way: str, said: str) -> None:
    async with site(way) as (_, url):
        await serving.ready(settings=McpServer(url=url, call_s=20))
        _, toolbox = serving.offer()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        outcome = await ask(toolbox, SAY, word="hi")
        assert outcome.outcome == "failed"
        assert said in outcome.output
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 * 1024
        await serving.close()


async def test_one_that_hangs_runs_into_the_limit_and_is_left_at_once(serving: Serving, ask: Ask) -> None:
    async with site("hang") as (_, url):
        await serving.ready(settings=McpServer(url=url, call_s=0.5))
        _, toolbox = serving.offer()
        began = time.monotonic()
        assert (await ask(toolbox, SAY, word="hi")).outcome == "timeout"
        await serving.close()
        assert time.monotonic() - began < 3


async def test_one_that_lets_nobody_in_is_named(serving: Serving) -> None:
    async with site("401") as (_, url):
        await serving.ready(settings=McpServer(url=url))
        assert serving.told == [
            "the MCP server s failed: Server returned an error response (it answered 401 Unauthorized)"
        ]
        _, toolbox = serving.offer()
        assert names(toolbox) == ["mcp_tools"]
        await serving.close()
