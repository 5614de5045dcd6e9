"""Servers of one test, and what a toolbox makes of them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from turnwright.machine.keeper import Keeper
from turnwright.machine.warden import process_table
from turnwright.schema.mcp import McpServer, RemoteTool, ServerEntry
from turnwright.schema.tools import ToolOutcome
from turnwright.tools.mcp.offer import Offer
from turnwright.tools.mcp.server import Event, Server
from turnwright.tools.registry import Toolbox

Ask = Callable[..., Awaitable[ToolOutcome]]
HOSTILE = Path(__file__).with_name("hostile.py")
ENV = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}


class Pinned:
    """`tools.mcp.server.Pins` of one test."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], str] = {}

    def changed(self, entry: ServerEntry, tools: Sequence[RemoteTool]) -> frozenset[str]:
        for tool in tools:
            self.known.setdefault((entry.name, tool.name), tool.sha256)
        return frozenset(tool.name for tool in tools if self.known[entry.name, tool.name] != tool.sha256)


class Serving:
    """Starts servers; `events` is what they had to tell."""

    def __init__(self, keeper: Keeper, folder: Path) -> None:
        self.keeper, self.folder = keeper, folder
        self.pins = Pinned()
        self.servers: list[Server] = []
        self.events: list[Event] = []

    def start(self, way: str = "", *rest: str, name: str = "s", settings: McpServer | None = None) -> Server:
        """A server that misbehaves so; `settings` without a command are about this one."""
        told = settings or McpServer()
        if not told.url and not told.command:
            args = ("-I", "-S", str(HOSTILE), way, *rest)
            told = msgspec.structs.replace(told, command=sys.executable, args=args, cwd=told.cwd or str(self.folder))
        entry = ServerEntry(name=name, settings=told, source="test", sha256="0" * 64)
        server = Server(entry, self.keeper, ENV, self.pins, time.monotonic, "0")
        server.listen(self.events.append)
        self.servers.append(server)
        return server

    async def ready(self, way: str = "", *rest: str, name: str = "s", settings: McpServer | None = None) -> Server:
        server = self.start(way, *rest, name=name, settings=settings)
        assert await server.settled(20)
        return server

    def offer(self, offered_max: int = 40, include: Sequence[str] | None = None) -> tuple[Offer, Toolbox]:
        offer = Offer(self.servers, offered_max=offered_max, include=include)
        return offer, Toolbox([], source=offer)

    @property
    def told(self) -> list[str]:
        return [event.text for event in self.events]

    async def close(self) -> None:
        for server in self.servers:
            await server.close()
        self.servers.clear()


def names(toolbox: Toolbox, mode: str = "build") -> list[str]:
    return [spec.name for spec in toolbox.offered(mode)]


def running(marker: str) -> list[int]:
    """Living processes that have it in their arguments."""
    found = []
    for pid, _ in process_table():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if marker.encode() in line and pid != os.getpid():
            found.append(pid)
    return found
