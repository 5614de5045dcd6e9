"""The one way out for commands whose network is a list of hosts: an HTTP proxy that runs beside the turn.

A command in a sandbox has no network of its own; what it has is a socket that leads here. It lives in `wire` and not in
`machine`, because what it reads and writes is HTTP, foreign and hostile; `machine` is only told where it listens.

- `CONNECT host:443` (or 80) makes a tunnel. Plain requests (`GET http://host/...`) are passed on, one to a connection,
  since package managers still speak them; a redirect in the answer goes back to the client like any other answer.
- The host is parsed once, looked up once, and the address that was checked is the address that is connected to. Later
  requests use the same addresses, so a name that changes what it means between two requests (rebinding) gains nothing.
- A name that is not on the list is never looked up: a lookup alone would carry out what is written in the name.
- If any of a name's addresses is one that may not be reached, the name is refused, not only that address.

What it cannot see: which site is asked for inside a tunnel. On shared hosts an allowed name can be the door to others.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence

import msgspec

from turnwright.wire.egress.names import PORTS, HostList, Refused
from turnwright.wire.egress.network import Network, Streams, SystemNetwork
from turnwright.wire.egress.requests import parse_request


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    connections: int = 128
    """At once. One more is refused, not queued."""
    head_bytes: int = 32 * 1024
    head_s: float = 10.0
    """For the whole request head: a client that trickles it does not hold a connection."""
    connect_s: float = 15.0
    """Looking up and connecting."""
    idle_s: float = 300.0
    """Without a byte in either direction."""
    names: int = 512
    """How many names are remembered with their addresses."""


_PIECE_BYTES = 64 * 1024
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_REASONS = {
    400: "Bad Request",
    403: "Forbidden",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


class Egress:
    """Serves until it is closed."""

    def __init__(self, hosts: HostList, *, network: Network | None = None, bounds: Bounds | None = None) -> None:
        self._hosts = hosts
        self._network = network or SystemNetwork()
        self._bounds = bounds or Bounds()
        self._pinned: dict[str, asyncio.Task[Sequence[str] | OSError]] = {}
        self._servers: set[asyncio.Server] = set()
        self._serving: set[asyncio.Task[None]] = set()

    async def serve(self, listening: socket.socket) -> Callable[[], None]:
        """Take connections from this socket, of whatever family, until the result is called, or `close`."""
        listening.setblocking(False)
        server = await asyncio.start_server(self._take, sock=listening, limit=self._bounds.head_bytes)
        self._servers.add(server)

        def stop() -> None:
            self._servers.discard(server)
            server.close()

        return stop

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = (*self._serving, *self._pinned.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._pinned.clear()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._answer(reader, writer)
        except Refused as refused:
            await self._refuse(reader, writer, refused)
        except (OSError, asyncio.CancelledError):
            pass  # the client left, or we are being closed: either way there is nobody to tell
        finally:
            self._serving.discard(task)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._serving) > self._bounds.connections:
            raise Refused(503, f"More than {self._bounds.connections} connections are open.")
        asked = parse_request(await self._head(reader))
        if not self._hosts.allows(asked.host):
            raise Refused(403, f"{asked.host} is not among machine.hosts.")
        if asked.port not in PORTS:
            raise Refused(403, f"Port {asked.port} of {asked.host} is closed to commands: only 443 and 80 are open.")
        far_reader, far_writer = await self._connect(asked.host, asked.port)
        try:
            for outgoing in (writer, far_writer):
                # `drain` then means: the kernel has it all. So nothing is lost when we hang up.
                outgoing.transport.set_write_buffer_limits(high=0)
            if asked.head is None:
                writer.write(_ESTABLISHED)
            else:
                far_writer.write(asked.head)
            await self._relay((reader, far_writer), (far_reader, writer))
        finally:
            far_writer.transport.abort()

    async def _head(self, reader: asyncio.StreamReader) -> bytes:
        try:
            async with asyncio.timeout(self._bounds.head_s):
                return await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            raise Refused(408, f"The request did not come within {self._bounds.head_s:g} s.") from None
        except asyncio.LimitOverrunError:
            raise Refused(431, f"The request's headers are larger than {self._bounds.head_bytes} bytes.") from None
        except asyncio.IncompleteReadError:
            raise Refused(400, "The request ended before its headers did.") from None

    async def _connect(self, host: str, port: int) -> Streams:
        try:
            async with asyncio.timeout(self._bounds.connect_s):
                return await self._dial(host, port, await self._addresses(host))
        except TimeoutError:
            raise Refused(504, f"{host} did not answer within {self._bounds.connect_s:g} s.") from None

    async def _dial(self, host: str, port: int, addresses: Sequence[str]) -> Streams:
        for address in addresses:
            if why := self._network.why_not(address):
                raise Refused(403, f"{host} leads to {address}, which {why}.")
        failed: OSError | None = None
        for address in addresses:
            try:
                return await self._network.dial(address, port)
            except OSError as refused:
                failed = refused
        # None answers any more: the next request looks again, and what it finds is checked again.
        self._pinned.pop(host, None)
        raise Refused(502, f"{host} cannot be reached: {failed or 'it has no address'}.")

    async def _addresses(self, host: str) -> Sequence[str]:
        """Looked up by the first who asks; those who ask meanwhile wait for the same answer."""
        lookup = self._pinned.get(host)
        if lookup is None:
            while len(self._pinned) >= self._bounds.names:
                del self._pinned[next(iter(self._pinned))]
            lookup = self._pinned[host] = asyncio.create_task(self._looked_up(host))
        found = await asyncio.shield(lookup)
        if isinstance(found, OSError):
            self._pinned.pop(host, None)
            raise Refused(502, f"{host} cannot be looked up: {found.strerror or found}.") from found
        return found

    async def _looked_up(self, host: str) -> Sequence[str] | OSError:
        """An error is a result here: whoever waited for it may have left."""
        try:
            return await self._network.resolve(host)
        except OSError as unknown:
            return unknown

    async def _relay(self, *ways: Streams) -> None:
        """Bytes in both directions until both have ended, one has broken, or nothing has come for long."""
        clock = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._bounds.idle_s) as patience:

                def stirred() -> None:
                    patience.reschedule(clock.time() + self._bounds.idle_s)

                await _copy_all(ways, stirred)
        except TimeoutError:
            pass  # hung up on both; either may call again

    async def _refuse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refused: Refused) -> None:
        body = f"Turnwright: {refused}\n".encode()
        head = f"HTTP/1.1 {refused.status} {_REASONS[refused.status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        try:
            async with asyncio.timeout(self._bounds.head_s):
                writer.write(head.encode() + body)
                writer.write_eof()
                # A connection that is closed with bytes unread is reset, and the client may lose the answer to that.
                while await reader.read(_PIECE_BYTES):
                    pass
        except (OSError, asyncio.CancelledError):
            pass  # it does not want to know, or takes too long; or we are being closed


async def _copy_all(ways: Sequence[Streams], stirred: Callable[[], None]) -> None:
    try:
        async with asyncio.TaskGroup() as copying:
            for reader, writer in ways:
                copying.create_task(_copy(reader, writer, stirred))
    except* OSError:
        pass  # one side broke off: the group has let go of the other way too


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stirred: Callable[[], None]) -> None:
    await writer.drain()
    while piece := await reader.read(_PIECE_BYTES):
        stirred()
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
