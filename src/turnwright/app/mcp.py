"""MCP servers of a process: which are configured, which may be started, and their tools for each conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from turnwright import __version__
from turnwright.app.trust import MCP_FILE, servers_of_project
from turnwright.config.folders import Folders
from turnwright.config.layers import dotted
from turnwright.config.load import Loaded
from turnwright.config.mcp_servers import entry_of_server, server_of_project
from turnwright.config.tool_environment import tool_environment
from turnwright.config.trust import Trust, TrustStore
from turnwright.kernel.ports import Clock
from turnwright.machine.keeper import Keeper
from turnwright.schema.mcp import RemoteTool, ServerEntry
from turnwright.schema.trust import Entry, Untrusted, canonical

if TYPE_CHECKING:
    from turnwright.tools.mcp.offer import Offer
    from turnwright.tools.mcp.server import Server

PINS_FILE = "mcp_tools.json"


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to start in a workspace."""

    entries: tuple[ServerEntry, ...] = ()
    untrusted: tuple[Untrusted, ...] = ()
    """Servers of the project that the user has not agreed to."""
    shadowed: tuple[str, ...] = ()
    """Servers of the project that the user has one of the same name of: his counts."""


NO_SERVERS = Configured()


def configured_servers(loaded: Loaded, workspace: Path, trust: Trust, environ: Mapping[str, str]) -> Configured:
    settings = loaded.settings.mcp
    entries: list[ServerEntry] = []
    for name, server in settings.servers.items():
        if server.enabled:
            places = [leaf.place for path, leaf in loaded.said.items() if path[:3] == ("mcp", "servers", name)]
            source = str(places[0]).rpartition(":")[0] or str(places[0]) if places else dotted(("mcp", "servers"))
            entries.append(entry_of_server(name, server, source, workspace, environ))
    if not settings.project_file:
        return Configured(entries=tuple(entries))
    untrusted, shadowed = list[Untrusted](), list[str]()
    for name, written in servers_of_project(workspace.resolve(), trust.folder).items():
        if name in settings.servers:
            shadowed.append(name)
            continue
        judged = trust.decide("mcp", name, canonical(written))
        if isinstance(judged, Untrusted):
            untrusted.append(judged)
            continue
        read = server_of_project(written)
        if isinstance(read, str) or read.enabled:
            entries.append(entry_of_server(name, read, MCP_FILE, workspace, environ))
    return Configured(entries=tuple(entries), untrusted=tuple(untrusted), shadowed=tuple(shadowed))


class ToolPins:
    """`tools.mcp.server.Pins`: the texts of tools as they were when they were first seen, by hash, in a file like that
    of what is trusted."""

    def __init__(self, folders: Folders) -> None:
        self._store = TrustStore(folders.state / PINS_FILE)

    def changed(self, entry: ServerEntry, tools: Sequence[RemoteTool]) -> frozenset[str]:
        known = self._store.of(_pinned_under(entry)).trusted
        named = {tool.name: _entry_of(tool) for tool in tools}
        if new := [each for each in named.values() if each.key not in known]:
            self._store.agree(_pinned_under(entry), new)
        return frozenset(name for name, each in named.items() if each.key in known and known[each.key] != each.sha256)

    def agree(self, entry: ServerEntry, tools: Sequence[RemoteTool]) -> None:
        """As they are now."""
        self._store.agree(_pinned_under(entry), [_entry_of(tool) for tool in tools])


def _pinned_under(entry: ServerEntry) -> Path:
    return Path(f"{entry.name}@{entry.sha256[:16]}")


def _entry_of(tool: RemoteTool) -> Entry:
    return Entry(kind="mcp-tool", name=tool.name, sha256=tool.sha256)


class McpServers:
    """One of each for the whole process, however many conversations use it: two workspaces have two, unless the entry
    names its folder itself."""

    def __init__(self, loaded: Loaded, environ: Mapping[str, str], keeper: Keeper, clock: Clock) -> None:
        self._loaded, self._environ, self._keeper, self._clock = loaded, environ, keeper, clock
        self._running: dict[bytes, Server] = {}
        self.pins = ToolPins(loaded.folders)

    def started(self, entries: Sequence[ServerEntry]) -> list[Server]:
        """Beside whatever else is done: nothing here waits."""
        from turnwright.tools.mcp.server import Server

        env = tool_environment(self._environ)
        found = []
        for entry in entries:
            key = msgspec.json.encode(entry)
            before = self._running.get(key)
            if before is None or before.state == "failed":  # who begins anew tries anew
                self._running[key] = Server(entry, self._keeper, env, self.pins, self._clock.monotonic, __version__)
            found.append(self._running[key])
        return found

    async def offer(
        self, configured: Configured, include: Sequence[str] | None, brought_in: Sequence[str] = ()
    ) -> Offer | None:
        """The tools for one conversation; None where there are no servers to have tools of."""
        if not configured.entries or (include is not None and not any(map(of_servers, include))):
            return None
        from turnwright.tools.mcp.offer import Offer

        settings = self._loaded.settings.mcp
        servers = self.started(configured.entries)
        if settings.wait_s:
            await asyncio.gather(*(server.settled(settings.wait_s) for server in servers))
        return Offer(servers, offered_max=settings.offered_max, include=include, brought_in=brought_in)

    async def close(self) -> None:
        running, self._running = self._running, {}
        await asyncio.gather(*(server.close() for server in running.values()))


def of_servers(name: str) -> bool:
    """Whether an entry of `tools.include` is about tools of servers."""
    return name.startswith("mcp__") or name == "mcp_tools"
