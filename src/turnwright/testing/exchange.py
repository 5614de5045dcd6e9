"""What a server does with one request, byte by byte: it may lie, drip, fall silent or hang up.

`Exchange` is data; `play` performs it on an asyncio stream. HTTP is written here by hand, because every library that
writes it refuses to write it wrongly.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Sequence
from email.utils import formatdate
from typing import TypeAlias, assert_never

import msgspec

FILL_BYTES = 65_536


class Send(msgspec.Struct, frozen=True):
    data: bytes


class Fill(msgspec.Struct, frozen=True):
    """One byte many times, without holding them all."""

    byte: bytes
    count: int


class Drip(msgspec.Struct, frozen=True):
    """The same bytes, one in each TCP segment."""

    data: bytes


class Wait(msgspec.Struct, frozen=True):
    """In pulses of the server, so that a test can make time short."""

    pulses: float


class Pulse(msgspec.Struct, frozen=True):
    """These bytes at every pulse, until the client has gone."""

    data: bytes


class Hang(msgspec.Struct, frozen=True):
    """Nothing, until the client has gone."""


class Close(msgspec.Struct, frozen=True):
    """Hang up politely (FIN), whatever was promised."""


class Reset(msgspec.Struct, frozen=True):
    """Hang up rudely (RST), once the client has had time to read what was sent."""


Op: TypeAlias = Send | Fill | Drip | Wait | Pulse | Hang | Close | Reset
Exchange: TypeAlias = tuple[Op, ...]
"""After the last operation the connection serves the next request, unless Close or Reset ended it."""

CHUNKED = ("Transfer-Encoding", "chunked")
LAST_CHUNK = b"0\r\n\r\n"


def head(status: int, headers: Sequence[tuple[str, str]], reason: str = "-") -> bytes:
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def whole(status: int, content_type: str | None, body: bytes, *headers: tuple[str, str]) -> Exchange:
    """A well-formed response with its length."""
    typed = [("Content-Type", content_type)] if content_type is not None else []
    return (Send(head(status, [*typed, *headers, ("Content-Length", str(len(body)))]) + body),)


def streamed(content_type: str | None, pieces: Sequence[bytes], *headers: tuple[str, str]) -> Exchange:
    """A well-formed chunked response, each piece a chunk of its own."""
    return (*opened(content_type, pieces, *headers), Send(LAST_CHUNK))


def opened(content_type: str | None, pieces: Sequence[bytes], *headers: tuple[str, str]) -> Exchange:
    """A chunked response that has not ended yet."""
    typed = [("Content-Type", content_type)] if content_type is not None else []
    first = head(200, [*typed, *headers, CHUNKED])
    return (Send(first), *(Send(chunk(piece)) for piece in pieces if piece))


async def play(
    exchange: Exchange,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    pulse_s: float,
    wall_s: Callable[[], float],
) -> bool:
    """Performs it. False: the connection is over."""
    for op in exchange:
        match op:
            case Send(data):
                writer.write(with_times(data, wall_s))
                await writer.drain()
            case Fill(byte, count):
                await _fill(writer, byte, count)
            case Drip(data):
                for start in range(len(data)):
                    writer.write(data[start : start + 1])
                    await writer.drain()
                    await asyncio.sleep(0)
            case Wait(pulses):
                await asyncio.sleep(pulses * pulse_s)
            case Pulse(data):
                while not await gone(reader, pulse_s):
                    writer.write(data)
                    await writer.drain()
                return False
            case Hang():
                while not await gone(reader, 60.0):
                    pass
                return False
            case Close():
                return False
            case Reset():
                await asyncio.sleep(0.05)
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
                return False
            case _:
                assert_never(op)
    return True


async def _fill(writer: asyncio.StreamWriter, byte: bytes, count: int) -> None:
    block = byte * min(count, FILL_BYTES)
    while count > 0:
        writer.write(block[:count])
        await writer.drain()
        count -= len(block)


async def gone(reader: asyncio.StreamReader, wait_s: float) -> bool:
    """Whether the client hung up within that time. What it says meanwhile is not listened to."""
    try:
        async with asyncio.timeout(wait_s):
            while await reader.read(65_536):
                pass
            return True
    except TimeoutError:
        return False


HTTP_DATE = b"@http-date@"
EPOCH = b"@epoch@"


def with_times(data: bytes, wall_s: Callable[[], float]) -> bytes:
    """Headers that name a moment name one a second after they are sent."""
    if HTTP_DATE in data:
        data = data.replace(HTTP_DATE, formatdate(wall_s() + 1, usegmt=True).encode())
    if EPOCH in data:
        data = data.replace(EPOCH, str(int(wall_s()) + 1).encode())
    return data
