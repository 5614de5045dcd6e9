"""A host's socket: lines in, lines out. Whoever is not its user is turned away."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from turnwright import __version__
from turnwright.app.host_socket import left, listening, peer_uid, socket_path
from turnwright.journal.processes import myself
from turnwright.schema import hosting as said
from turnwright.schema.errors import InputError
from turnwright.schema.ids import ConversationId
from turnwright.session.hosting import Host, refused

CLIENTS_MAX = 64
LEAVE_S = 0.5
"""A client that does not read has that long to be told the end; it finds the rest in the journal."""


@asynccontextmanager
async def reachable(host: Host, data: Path) -> AsyncIterator[None]:
    """Other processes of this user can reach the conversations of `host`. Raises MachineError where no socket can be
    made. Leave it when they are closed: who still follows is then told the rest."""
    path = socket_path(data, myself(""))
    listener = listening(path)
    server = _Server(host)
    accepting = await asyncio.start_unix_server(server.connected, sock=listener, limit=said.LINE_BYTES_MAX)
    try:
        yield
    finally:
        left(path)
        accepting.close()
        await server.close()


class _Server:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._clients: dict[_Client, asyncio.Task[None]] = {}
        self._decoder = msgspec.json.Decoder(said.AnyRequest)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Client(self._host, reader, writer, self._decoder)
        task = asyncio.current_task()
        assert task is not None
        self._clients[client] = task
        try:
            if (why := self._unwelcome(writer)) is not None:
                await client.say(refused(0, why))
            else:
                await client.serve()
            await client.finish()
        except OSError:
            pass  # it has gone, which changes nothing here
        finally:
            del self._clients[client]
            client.hang_up()

    def _unwelcome(self, writer: asyncio.StreamWriter) -> InputError | None:
        connection: socket.socket = writer.get_extra_info("socket")
        uid, mine = peer_uid(connection), os.geteuid()
        if uid != mine:
            return InputError(f"This turn belongs to user {mine}, and you are user {uid}.")
        if len(self._clients) > CLIENTS_MAX:
            return InputError(f"{CLIENTS_MAX} others are connected to this process already.", remedy="Try later.")
        return None

    async def close(self) -> None:
        """What was begun for a client is finished, for it may be on record already; those who follow get the end."""
        for client in self._clients:
            client.let_go()
        if self._clients:
            await asyncio.wait(self._clients.values(), timeout=LEAVE_S)
        for client in list(self._clients):
            client.hang_up()


class _Client:
    def __init__(
        self,
        host: Host,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        decoder: msgspec.json.Decoder[said.AnyRequest],
    ) -> None:
        self._host = host
        self._reader = reader
        self._writer = writer
        self._decoder = decoder
        self._follows: dict[ConversationId, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Requests in their order; what it follows comes in between."""
        await self.say(said.Hello(turnwright=__version__, pid=os.getpid()))
        try:
            while line := await self._line():
                await self._hear(line)
            await self._followed()
        finally:
            for task in self._follows.values():
                task.cancel()

    async def _line(self) -> bytes:
        """Nothing at the end, or where a line is too long."""
        try:
            return await self._reader.readline()
        except ValueError:
            await self.say(refused(0, InputError(f"A line may have {said.LINE_BYTES_MAX} bytes, and not more.")))
            return b""

    async def _followed(self) -> None:
        """It will say no more, and may still listen."""
        if self._follows:
            await asyncio.wait(self._follows.values())

    async def _hear(self, line: bytes) -> None:
        try:
            request = self._decoder.decode(line)
        except msgspec.DecodeError as bad:
            return await self.say(refused(0, InputError(f"This is no request that is known here: {bad}.")))
        if (hosted := self._host.find(request.conversation_id)) is None:
            return await self.say(said.Gone(conversation_id=request.conversation_id))
        if not isinstance(request, said.Follow):
            return await self.say(await hosted.answer(request))
        if request.conversation_id in self._follows:
            return await self.say(refused(request.id, InputError("This connection follows that conversation already.")))
        await self.say(said.Done(id=request.id))
        following = asyncio.create_task(self._follow(hosted.follow(request.since, self._send)))
        self._follows[request.conversation_id] = following
        return None

    async def say(self, message: said.Said) -> None:
        await self._send(said.encode_message(message) + b"\n")

    async def _send(self, lines: bytes) -> None:
        self._writer.write(lines)
        await self._writer.drain()

    async def _follow(self, followed: Coroutine[Any, Any, None]) -> None:
        with suppress(OSError):  # it has gone, or has stopped reading, and was hung up on
            await followed

    async def finish(self) -> None:
        """What was said is sent."""
        self._writer.close()
        await self._writer.wait_closed()

    def let_go(self) -> None:
        """No further request is read."""
        self._reader.feed_eof()

    def hang_up(self) -> None:
        self._writer.transport.abort()
