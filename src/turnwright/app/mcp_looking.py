"""The servers of a workspace, started to be looked at, called or agreed with: outside of any conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from turnwright.app.clock import SystemClock
from turnwright.app.mcp import Configured, McpServers, configured_servers
from turnwright.config.environment import process_environment
from turnwright.config.load import Loaded
from turnwright.machine.keeper import Keeper
from turnwright.schema.errors import InputError, ToolFailure
from turnwright.schema.masking import Masker
from turnwright.schema.mcp import RemoteTool, ServerEntry
from turnwright.schema.tools import ToolOutcome

if TYPE_CHECKING:
    from turnwright.tools.mcp.server import Server


class ToolRow(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as its server describes it now."""

    name: str
    """What the model calls it."""
    description: str
    sha256: str
    """Of all that the model is told of it."""
    reads: bool
    """The server says that it only reads."""
    held: bool
    """Its text is not what it was when it was first seen: it is not offered."""


class ServerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A server, and what became of it when it was started just now."""

    name: str
    source: str
    """Where it was configured."""
    reached: str
    """Its command or address."""
    state: str
    """`ready`, `failed`, or `untrusted`: then it was not started."""
    why: str = ""
    about: str = ""
    """What it calls itself."""
    sha256: str = ""
    """Of its entry: what was agreed to, and what its tools are remembered under."""
    tools: tuple[ToolRow, ...] = ()
    unfit: tuple[str, ...] = ()
    """Tools that cannot be used, each with its reason."""


@asynccontextmanager
async def servers_of(
    loaded: Loaded, workspace: Path, only: str = ""
) -> AsyncIterator[tuple[Configured, McpServers, list[Server]]]:
    """All, or the one of that name, as they are once it is known what becomes of them."""
    clock, environ, keeper = SystemClock(), process_environment(), Keeper()
    configured = configured_servers(loaded, workspace, loaded.trust.at(workspace), environ)
    servers = McpServers(loaded, environ, keeper, clock)
    try:
        running = servers.started([entry for entry in configured.entries if only in ("", entry.name)])
        await asyncio.gather(*(server.settled(_longest_s(server.entry)) for server in running))
        yield configured, servers, running
    finally:
        await servers.close()
        await keeper.close()


def _longest_s(entry: ServerEntry) -> float:
    return entry.settings.start_s + entry.settings.list_s + 5


async def looked_at(loaded: Loaded, workspace: Path, only: str = "") -> list[ServerRow]:
    async with servers_of(loaded, workspace, only) as (configured, _, running):
        mask = _masker(configured)
        rows = [_row(server, mask) for server in running]
        rows += [
            ServerRow(
                name=one.entry.name,
                source=".mcp.json",
                reached="",
                state="untrusted",
                why=f"{one.why}. {one.remedy}",
                sha256=one.entry.sha256,
            )
            for one in configured.untrusted
            if only in ("", one.entry.name)
        ]
    if only and not rows:
        raise _unknown(only, configured)
    return rows


async def called(loaded: Loaded, workspace: Path, server: str, tool: str, arguments: dict[str, Any]) -> ToolOutcome:
    """One call, outside of any conversation. `tool` is its server's name for it, or ours."""
    from turnwright.tools.mcp.arguments import problem_of
    from turnwright.tools.mcp.names import tool_name
    from turnwright.tools.mcp.results import outcome_of

    async with servers_of(loaded, workspace, server) as (configured, _, running):
        one = _the_one(running, server, configured)
        found = next((each for each in one.tools if tool in (each.name, tool_name(server, each.name))), None)
        if found is None:
            raise _no_tool(one, tool)
        if problem := problem_of(arguments, found.parameters):
            raise InputError(f"The arguments of {tool} do not fit its schema: {problem}")
        limit_s = one.entry.settings.call_s
        try:
            async with asyncio.timeout(limit_s):
                outcome = outcome_of(await one.call(found.name, arguments), server)
        except TimeoutError:
            raise ToolFailure(f"The tool {tool} was stopped at its time limit of {limit_s:g} s.") from None
        return msgspec.structs.replace(outcome, output=_masker(configured)(outcome.output))


async def agreed(loaded: Loaded, workspace: Path, server: str, tools: Sequence[str] = ()) -> tuple[str, ...]:
    """The texts of a server's tools count as they are now, of all that have changed or of those named. Which."""
    async with servers_of(loaded, workspace, server) as (configured, servers, running):
        one = _the_one(running, server, configured)
        held = {each.name: each for each in one.held}
        for name in tools:
            if name not in held:
                raise InputError(f"The tool {name} of the MCP server {server} is not one whose text has changed.")
        chosen = [held[name] for name in (tools or held)]
        servers.pins.agree(one.entry, chosen)
        return tuple(each.name for each in chosen)


def _row(server: Server, mask: Masker) -> ServerRow:
    from turnwright.tools.mcp.names import tool_name

    entry = server.entry
    named: dict[str, RemoteTool] = {}
    for each in (*server.tools, *server.held):
        named[tool_name(entry.name, each.name, named)] = each
    tools = tuple(
        ToolRow(
            name=name,
            description=mask(each.description),
            sha256=each.sha256,
            reads=each.read_only,
            held=each in server.held,
        )
        for name, each in named.items()
    )
    reached = entry.settings.url or " ".join([entry.settings.command, *entry.settings.args])
    return ServerRow(
        name=entry.name,
        source=entry.source,
        reached=mask(reached),
        state=server.state,
        why=mask(server.why),
        about=server.about,
        sha256=entry.sha256,
        tools=tools,
        unfit=server.unfit,
    )


def _masker(configured: Configured) -> Masker:
    return Masker(secret for entry in configured.entries for secret in entry.secrets)


def _the_one(running: Sequence[Server], name: str, configured: Configured) -> Server:
    if not running:
        raise _unknown(name, configured)
    (server,) = running
    if server.state != "ready":
        raise ToolFailure(f"The MCP server {name} {_masker(configured)(server.why or 'is still starting')}.")
    return server


def _unknown(name: str, configured: Configured) -> InputError:
    for one in configured.untrusted:
        if one.entry.name == name:
            return InputError(f"The MCP server {name} is not started: {one.why}.", remedy=one.remedy)
    there = ", ".join(entry.name for entry in configured.entries) or "none"
    return InputError(f"There is no MCP server {name!r}.", remedy=f"There are: {there}.")


def _no_tool(server: Server, tool: str) -> InputError:
    name = server.entry.name
    if any(each.name == tool for each in server.held):
        return InputError(
            f"The text of the tool {tool} of the MCP server {name} is not what it was when it was first seen.",
            remedy=f"Look at it: turnwright mcp list {name}. Then: turnwright mcp approve {name} {tool}",
        )
    there = ", ".join(each.name for each in server.tools) or "none"
    return InputError(f"The MCP server {name} has no tool {tool!r}.", remedy=f"There are: {there}.")
