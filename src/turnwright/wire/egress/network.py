"""What the proxy needs of the world: lookups, a judgement on addresses, and connections. A port, with the real one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from turnwright.wire.egress.addresses import why_not

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Network(Protocol):
    async def resolve(self, host: str) -> Sequence[str]:
        """The addresses of a name; OSError where it has none."""
        ...

    def why_not(self, address: str) -> str:
        """Why nothing may connect to this address; empty where it may."""
        ...

    async def dial(self, address: str, port: int) -> Streams: ...


class SystemNetwork:
    """This computer's."""

    async def resolve(self, host: str) -> Sequence[str]:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return tuple(dict.fromkeys(str(address[0]) for *_, address in found))

    def why_not(self, address: str) -> str:
        return why_not(address)

    async def dial(self, address: str, port: int) -> Streams:
        return await asyncio.open_connection(address, port)
