"""The other end of a host's socket: ask it something, or follow what it runs."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import msgspec

from turnwright.app.host_socket import peer_uid, socket_path
from turnwright.journal.records import Holder
from turnwright.schema import hosting as said
from turnwright.schema.errors import InputError, MachineError
from turnwright.schema.facts import Recorded, decode_line
from turnwright.schema.ids import ConversationId, Seq
from turnwright.schema.live import LiveEvent
from turnwright.views.open_parts import OpenParts

CONNECT_S = 5.0
READ_BYTES = 256 * 1024

Followed: TypeAlias = Recorded | LiveEvent | said.Behind
_decoder: msgspec.json.Decoder[LiveEvent | said.AnySaid] = msgspec.json.Decoder(LiveEvent | said.AnySaid)


class Unreachable(Exception):
    """Nobody listens there: the host is about to begin or to end, has died, or offers no socket."""


class HostLost(Exception):
    """The host went away in the middle. What it was asked may be on record all the same."""


class HostClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._lines = self._read_lines()

    async def greet(self) -> None:
        """Whoever listens there is this user's, and speaks as we do."""
        connection: socket.socket = self._writer.get_extra_info("socket")
        if peer_uid(connection) != os.geteuid():
            raise MachineError("The socket of the host belongs to another user.", remedy="Do not use this data folder.")
        async with asyncio.timeout(CONNECT_S):
            line = await anext(self._lines, b"")
        match _decoded(line) if line else None:
            case said.Hello(protocol=said.PROTOCOL):
                pass
            case said.Hello(turnwright=version):
                raise MachineError(
                    f"The process that runs this conversation is Turnwright {version}, and speaks another protocol.",
                    remedy="Use the same version.",
                )
            case said.Refused() as no:
                raise InputError(no.message, remedy=no.remedy)
            case _:
                raise Unreachable

    async def ask(self, request: said.Request) -> said.Done | said.Heard | said.Letter | said.Stopped | said.Asked:
        """Raises InputError where the host refuses, HostLost where it goes away first."""
        try:
            self._writer.write(said.encode_message(request) + b"\n")
            await self._writer.drain()
        except OSError as gone:
            raise HostLost from gone
        async for line in self._lines:
            match _decoded(line):
                case said.Refused(id=id) as no if id in (request.id, 0):
                    raise InputError(no.message, remedy=no.remedy)
                case said.Gone():
                    raise HostLost
                case (said.Done() | said.Heard() | said.Letter() | said.Stopped() | said.Asked()) as answer:
                    return answer
                case _:
                    pass
        raise HostLost

    async def follow(self, conversation_id: ConversationId, since: Seq) -> AsyncGenerator[Followed, None]:
        """Everything after `since` until the host is done with it, or is lost: then its last facts are in the journal.
        Of what is said again after it was slow, only what it has not heard."""
        await self.ask(said.Follow(id=1, conversation_id=conversation_id, since=since))
        parts = OpenParts()
        async for line in self._lines:
            event = decode_line(line) or _decoded(line)
            match event:
                case Recorded():
                    parts.fact(event.fact)
                    yield event
                case said.Open():
                    for part in event.parts:
                        if (rest := parts.rest_of(part)) is not None:
                            yield rest
                case said.Behind():
                    yield event
                case said.Gone():
                    return
                case None | said.Hello() | said.Done() | said.Heard() | said.Letter() | said.Stopped() | said.Asked():
                    pass
                case said.Refused():
                    pass
                case _:
                    parts.live(event)
                    yield event

    async def _read_lines(self) -> AsyncGenerator[bytes, None]:
        """A fact may be as long as it likes."""
        pieces: list[bytes] = []
        try:
            while read := await self._reader.read(READ_BYTES):
                *whole, rest = read.split(b"\n")
                for line in whole:
                    pieces.append(line)
                    yield b"".join(pieces)
                    pieces = []
                pieces.append(rest)
        except OSError:
            return


@asynccontextmanager
async def connected(data: Path, holder: Holder) -> AsyncIterator[HostClient]:
    """To the process that holds a conversation. Raises Unreachable where it cannot be reached."""
    path = socket_path(data, holder)
    try:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_unix_connection(str(path))
    except OSError as nobody:  # a timeout is one too
        raise Unreachable from nobody
    try:
        client = HostClient(reader, writer)
        await client.greet()
        yield client
    finally:
        writer.transport.abort()


def _decoded(line: bytes) -> LiveEvent | said.AnySaid | None:
    """None for what only a newer Turnwright says."""
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError:
        return None
