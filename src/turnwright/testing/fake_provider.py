"""A well-behaved provider for benches and demos: any dialect, over real sockets, as fast as asyncio goes.

Replies are encoded before they are asked for, and a request is not parsed: its path names the dialect, and counting the
marks of tool results in its body says how far the conversation has come. `python -m turnwright.testing.fake_provider`
runs it in a process of its own, so that its CPU is not counted with ours.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from turnwright.kernel.compaction import DIGEST_REQUEST
from turnwright.providers.codec import Dialect
from turnwright.providers.script import Call, Script, Step, Tokens, read_script
from turnwright.providers.scripted import pieces_of
from turnwright.schema.errors import ConfigError, TurnwrightError
from turnwright.schema.parts import Usage
from turnwright.testing.dialects import SPEAKERS
from turnwright.testing.dialects.asked import asks_for_stream, dialect_of
from turnwright.testing.dialects.said import Said, SaidCall, framed, json_bytes
from turnwright.testing.exchange import CHUNKED, LAST_CHUNK, chunk, head

Heard: TypeAlias = Callable[[str, bytes], object]
"""Is told of every request: its path and its body."""

DIGEST = -1
"""The number of the reply to a request for a summary."""
_DIGEST_MARK = msgspec.json.encode(DIGEST_REQUEST.partition("\n")[0])[1:-1]

Follow: TypeAlias = Literal["results", "requests"]
"""Where a conversation stands: by the tool results in its request, or by the requests under its base URL."""

_LENGTH = re.compile(rb"(?i)\r\ncontent-length:\s*(\d+)")
_RESULTS: dict[Dialect, tuple[bytes, ...]] = {
    "openai-chat": (b'"role":"tool"', b'"role": "tool"'),
    "openai-responses": (b'"function_call_output"',),
    "anthropic": (b'"tool_result"',),
    "gemini": (b'"functionResponse"',),
    "ollama": (b'"role":"tool"', b'"role": "tool"'),
}
NOT_FOUND = b'{"error":{"message":"No dialect has this path.","type":"not_found_error","code":404}}'


class Sent(msgspec.Struct, frozen=True):
    """An encoded reply: its head with the first bytes, and the rest in the order of its deltas."""

    pieces: tuple[bytes, ...]


class Replies:
    """A script in every dialect. Steps are encoded once each; the last one repeats."""

    def __init__(self, script: Script | Sequence[Step]) -> None:
        steps = script.steps if isinstance(script, Script) else list(script)
        for number, step in enumerate(steps, 1):
            if step.expect or step.fault:
                raise ConfigError(
                    f"Step {number} has `expect` or `fault`, which the fake provider does not know.",
                    remedy="Use the scripted model for expectations, and the fault server for faults.",
                )
        assert steps, "a provider has something to say"
        self._steps = steps
        self._digest = script.digest if isinstance(script, Script) else None
        self.reply = cache(self._encoded)

    @property
    def digests(self) -> bool:
        """Whether a request for a summary has an answer of its own."""
        return self._digest is not None

    def step(self, number: int) -> Step:
        if number == DIGEST:
            return Step(text=self._digest or "", chunk="whole")
        for step in self._steps[:-1]:
            if number < step.times:
                return step
            number -= step.times
        return self._steps[-1]

    def number_at(self, results: int) -> int:
        """Which step follows so many tool results."""
        number = 0
        for step in self._steps:
            calls = len(step.calls)
            if calls == 0 or results < calls:
                return number
            passed = min(step.times, results // calls)
            number, results = number + passed, results - passed * calls
            if passed < step.times:
                return number
        return number

    def _encoded(self, number: int, dialect: Dialect, streaming: bool) -> Sent:
        speaker, said = SPEAKERS[dialect], _said(self.step(number), number, dialect)
        if not streaming:
            body = json_bytes(speaker.document(said))
            first = head(200, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))], "OK")
            return Sent((first + body,))
        content_type = "text/event-stream" if speaker.framing == "sse" else "application/x-ndjson"
        pieces = [chunk(framed(one, speaker.framing)) for one in speaker.stream(said)]
        first = head(200, [("Content-Type", content_type), CHUNKED], "OK")
        return Sent((first + pieces[0], *pieces[1:-1], pieces[-1] + LAST_CHUNK))


def _said(step: Step, number: int, dialect: Dialect) -> Said:
    calls = tuple(
        SaidCall(
            name=call.name,
            fragments=tuple(pieces_of(_arguments(call), step.chunk if isinstance(step.chunk, int) else 16)),
            id="" if dialect in ("gemini", "ollama") else call.id or f"call_{number}_{place}",
        )
        for place, call in enumerate(step.calls)
    )
    match step.usage:
        case Tokens() as given:
            usage: Usage | None = Usage(input=given.input, output=given.output)
        case "none":
            usage = None
        case None:
            usage = Usage(input=100 + number, output=max(1, len(step.text) // 4))
    return Said(
        text=tuple(pieces_of(step.text, step.chunk)),
        reasoning=tuple(pieces_of(step.reasoning, step.chunk)),
        refusal=tuple(pieces_of(step.refusal, step.chunk)),
        calls=calls,
        finish=step.finish or ("tool_calls" if calls else "stop"),
        usage=usage,
        model="fake",
    )


def _arguments(call: Call) -> str:
    return call.raw if call.raw is not None else json_bytes(call.arguments).decode()


class _Connection(asyncio.Protocol):
    """One client. Requests are answered in turn."""

    def __init__(self, replies: Replies, follow: Follow, requests: dict[str, int], heard: Heard | None) -> None:
        self._replies = replies
        self._heard = heard
        self._follow = follow
        self._requests = requests
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._answering: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "TCP"
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._answering:
            self._answering.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._serve()

    def _serve(self) -> None:
        while self._answering is None and (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            found = _LENGTH.search(self._buffer, 0, end)
            whole = end + 4 + (int(found[1]) if found else 0)
            if len(self._buffer) < whole:
                return
            step, sent = self._choose(end + 4, whole)
            del self._buffer[:whole]
            if step.delay_s <= 0 and step.gap_s <= 0:
                self._write(b"".join(sent.pieces))
            else:
                self._answering = asyncio.get_running_loop().create_task(self._slowly(step, sent))

    def _choose(self, start: int, end: int) -> tuple[Step, Sent]:
        """The body of the request is the buffer from `start` to `end`."""
        buffer = self._buffer
        path = buffer[: buffer.find(b"\r\n")].decode("latin-1").split(" ")[1]
        if self._heard is not None:
            self._heard(path, bytes(buffer[start:end]))
        dialect = dialect_of(path)
        if dialect is None:
            first = head(404, [("Content-Type", "application/json"), ("Content-Length", str(len(NOT_FOUND)))])
            return Step(), Sent((first + NOT_FOUND,))
        streaming = asks_for_stream(path, buffer, start, end)
        if self._replies.digests and buffer.find(_DIGEST_MARK, start, end) >= 0:
            number = DIGEST
        elif self._follow == "requests":
            number = self._requests.get(path, 0)
            self._requests[path] = number + 1
        else:
            results = sum(buffer.count(mark, start, end) for mark in _RESULTS[dialect])
            number = self._replies.number_at(results)
        return self._replies.step(number), self._replies.reply(number, dialect, streaming)

    async def _slowly(self, step: Step, sent: Sent) -> None:
        await asyncio.sleep(step.delay_s)
        if step.gap_s <= 0:
            self._write(b"".join(sent.pieces))
        else:
            for piece in sent.pieces:
                self._write(piece)
                await asyncio.sleep(step.gap_s)
        self._answering = None
        self._serve()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


@asynccontextmanager
async def fake_provider(
    script: Script | Sequence[Step],
    *,
    follow: Follow = "results",
    host: str = "127.0.0.1",
    port: int = 0,
    heard: Heard | None = None,
) -> AsyncIterator[str]:
    """Serves in this process; gives the base URL, below which any path may come before the dialect's own."""
    replies = Replies(script)
    requests: dict[str, int] = {}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(replies, follow, requests, heard), host, port)
    try:
        yield f"http://{host}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@contextmanager
def spawned(*arguments: str) -> Iterator[str]:
    """Serves in another process, with the arguments of the command line; it dies with this one."""
    command = [sys.executable, "-m", "turnwright.testing.fake_provider", "--until-stdin-closes", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None, "both are pipes"
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


async def _stdin_closes() -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(1024):
        pass


async def _serve_until_over(arguments: argparse.Namespace) -> None:
    async with fake_provider(_script_of(arguments), follow=arguments.follow, port=arguments.port) as url:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        await (_stdin_closes() if arguments.until_stdin_closes else asyncio.Event().wait())


def _script_of(arguments: argparse.Namespace) -> Script:
    if arguments.script:
        return read_script(Path(arguments.script))
    slow = {"delay_s": arguments.think, "gap_s": arguments.gap}
    call = Call(name=arguments.tool, arguments=msgspec.json.decode(arguments.arguments))
    acting = Step(calls=[call] * arguments.calls, repeat=max(arguments.steps, 1), **slow)
    last = Step(text=arguments.text * arguments.deltas, chunk=max(len(arguments.text), 1), repeat="forever", **slow)
    return Script(steps=[acting, last] if arguments.steps else [last])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="turnwright.testing.fake_provider",
        description="A fast, well-behaved provider in any dialect. Prints its base URL.",
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument(
        "--script", help="a YAML script (docs/reference/scripted-model.md) instead of the options below"
    )
    parser.add_argument("--steps", type=int, default=0, help="so many replies ask for a tool before the last one")
    parser.add_argument("--tool", default="bash", help="the tool they ask for")
    parser.add_argument("--arguments", default='{"command":"true"}', help="its arguments, as JSON")
    parser.add_argument("--calls", type=int, default=1, help="calls in each of those replies")
    parser.add_argument("--text", default="Done.", help="one delta of the last reply")
    parser.add_argument("--deltas", type=int, default=1, help="deltas of the last reply")
    parser.add_argument("--think", type=float, default=0.0, metavar="SECONDS", help="before each reply")
    parser.add_argument("--gap", type=float, default=0.0, metavar="SECONDS", help="between deltas; 0 sends all at once")
    parser.add_argument("--follow", choices=("results", "requests"), default="results")
    parser.add_argument("--until-stdin-closes", action="store_true")
    with suppress(KeyboardInterrupt):
        try:
            asyncio.run(_serve_until_over(parser.parse_args(argv)))
        except TurnwrightError as wrong:
            parser.error(str(wrong))
    return 0


if __name__ == "__main__":
    sys.exit(main())
