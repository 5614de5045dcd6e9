"""The wire of a server that is a process: one message of JSON a line, each way, through bounded buffers.

What the server does wrong here ends the connection with a reason that names it: a line that never ends, and lines that
are no messages once there are too many. A few of those are forgiven, since many a program greets on stdout.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from turnwright.machine.talking import Talk

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
GARBAGE_BYTES_MAX = 1024 * 1024
"""Of lines that are no messages, before the connection ends."""
GOODBYE_S = 0.3
"""A server that is no longer spoken to ends by itself within this time, or is ended."""

_READ_BYTES = 256 * 1024

Incoming = SessionMessage | Exception


class Flood(Exception):
    """The server writes what no client can bear."""


class Lines:
    """Bytes in, lines out; a line is looked for only in what is new."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            yield b"".join([*self._pieces, line])
            self._pieces, self._size = [], 0
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        if self._size > MESSAGE_BYTES_MAX:
            raise Flood(f"it sent a message of more than {MESSAGE_BYTES_MAX // 1024 // 1024} MiB")


class Messages:
    """Lines in, messages out."""

    def __init__(self) -> None:
        self._garbage = 0

    def read(self, line: bytes) -> SessionMessage | None:
        if not line.strip():
            return None
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            self._garbage += len(line) + 1
            if self._garbage > GARBAGE_BYTES_MAX:
                raise Flood(
                    f"it wrote more than {GARBAGE_BYTES_MAX // 1024} KiB to its stdout that are no messages"
                ) from None
            return None


Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


@asynccontextmanager
async def stdio_streams(talk: Talk, on_end: Callable[[str], None]) -> AsyncIterator[Streams]:
    """`on_end` is told why, where the server ends the conversation. Left, the server and all it started are gone."""
    incoming, to_session = anyio.create_memory_object_stream[Incoming](0)
    from_session, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        reader, stdout, writer = await _opened(talk)
    except BaseException:
        await talk.process.stop()
        raise

    async def read() -> None:
        lines, messages = Lines(), Messages()
        async with incoming:
            try:
                while piece := await reader.read(_READ_BYTES):
                    for line in lines.feed(piece):
                        if (message := messages.read(line)) is not None:
                            await incoming.send(message)
                on_end(await _how_it_ended(talk))
            except Flood as flood:
                on_end(str(flood))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # the session is gone; this ends with it

    async def write() -> None:
        async with outgoing:
            async for message in outgoing:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(text.encode() + b"\n")
                with contextlib.suppress(ConnectionError):  # its stdin is closed: its stdout says what that means
                    await writer.drain()

    tasks = [asyncio.create_task(read()), asyncio.create_task(write())]
    try:
        yield to_session, from_session
    finally:
        for stream in (to_session, from_session):
            stream.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await _say_goodbye(talk, writer)
        finally:
            stdout.close()


async def _opened(talk: Talk) -> tuple[asyncio.StreamReader, asyncio.ReadTransport, asyncio.StreamWriter]:
    """The pipes belong to the transports from here on, or are closed."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    stdout, stdin = os.fdopen(talk.stdout_fd, "rb", 0), os.fdopen(talk.stdin_fd, "wb", 0)
    try:
        reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stdout)
        writing, drained = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, stdin)
    except BaseException:
        stdout.close()
        stdin.close()
        raise
    return reader, reading, asyncio.StreamWriter(writing, drained, None, loop)


async def _how_it_ended(talk: Talk) -> str:
    """Its stdout is closed; mostly because it has ended, and then its last words are known."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GOODBYE_S):
            return f"exit code {(await talk.process.wait()).exit_code}"
    return "it closed its stdout"


async def _say_goodbye(talk: Talk, writer: asyncio.StreamWriter) -> None:
    """An end of input is how a server is asked to leave."""
    writer.transport.abort()
    try:
        async with asyncio.timeout(GOODBYE_S):
            await talk.process.wait()
    except TimeoutError:
        await talk.process.stop()
