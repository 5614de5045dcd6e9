"""The tools of servers, as one conversation is offered them: those that are ready, and by name those that there is no
room for."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from turnwright.schema.errors import ToolFailure
from turnwright.schema.facts import Note, ToolEnded
from turnwright.schema.mcp import RemoteTool
from turnwright.schema.prompt import ToolSpec
from turnwright.schema.tools import ToolOutcome
from turnwright.tools.context import ToolContext
from turnwright.tools.mcp.names import tool_name
from turnwright.tools.mcp.server import Event, Server
from turnwright.tools.registry import FunctionTool, Tool, tool

SEARCH = "mcp_tools"
NOTE = "mcp"
"""The code of the notes about servers."""
BROUGHT_IN = "brought_in"
"""Under which the names that `mcp_tools` brought in are on record."""
LINE_CHARS = 160


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool of a server, as a toolbox holds it."""

    spec: ToolSpec
    remote: RemoteTool
    server: Server

    def problem(self, arguments: dict[str, Any]) -> str:
        from turnwright.tools.mcp.arguments import problem_of

        return problem_of(arguments, self.remote.parameters)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        from turnwright.tools.mcp.results import outcome_of

        del context
        if not any(each.name == self.remote.name for each in self.server.tools) and self.server.state == "ready":
            raise ToolFailure(f"The MCP server {self.server.entry.name} no longer offers {self.remote.name} as it was.")
        return outcome_of(await self.server.call(self.remote.name, arguments), self.server.entry.name)


class Offer:
    """Satisfies `tools.registry.Source` and `session.conversation.Beside`. What was offered once stays, at its place,
    for as long as its server has it: the model's prompt begins with it."""

    def __init__(
        self,
        servers: Sequence[Server],
        *,
        offered_max: int,
        include: Sequence[str] | None = None,
        brought_in: Sequence[str] = (),
    ) -> None:
        """`include`: patterns of the names that may be offered; None: all. `brought_in`: what somebody else has found
        already."""
        self._servers = tuple(servers)
        self._offered_max = offered_max
        self._include = include
        self._news: list[Note] = []
        self._search = FunctionTool.of(self._searching())
        self._room: dict[str, bool] = {}
        """Servers that were ready: whether their tools are offered without being asked for."""
        self._brought_in = dict.fromkeys(brought_in)
        self._tools: tuple[Tool, ...] = (self._search,)
        self._made: dict[tuple[str, str], ServerTool] = {}
        self._stop = [server.listen(self._hear) for server in self._servers]
        for server in self._servers:
            if server.state != "starting":
                self._hear(server.standing())
        self._dirty = True

    def tools(self) -> tuple[Tool, ...]:
        if self._dirty:
            self._dirty = False
            made = self._now()
            if made != self._tools:
                self._tools = made
        return self._tools

    def news(self) -> Sequence[Note]:
        """What happened to the servers since last asked."""
        news, self._news = self._news, []
        return news

    async def close(self) -> None:
        """The servers go on: they may serve others."""
        for stop in self._stop:
            stop()
        self._stop = []

    def recall(self, fact: object) -> None:
        """What another process had brought in for this conversation."""
        match fact:
            case ToolEnded(name=name, detail=detail) if name == SEARCH and BROUGHT_IN in detail:
                for each in str(detail[BROUGHT_IN]).split(","):
                    self._bring_in(each)
            case _:
                pass

    def _hear(self, event: Event) -> None:
        self._news.append(Note(code=NOTE, text=event.text, data=event.data))
        self._dirty = True

    def _bring_in(self, name: str) -> None:
        if name not in self._brought_in:
            self._brought_in[name] = None
            self._dirty = True

    def _now(self) -> tuple[Tool, ...]:
        kept = [each for each in self._made.values() if each.remote in each.server.tools]
        room = self._offered_max - sum(self._room.get(each.server.entry.name, False) for each in kept)
        for server in self._servers:
            name = server.entry.name
            if server.state == "ready" and name not in self._room:
                fits = len(server.tools) <= room
                self._room[name] = fits
                room -= len(server.tools) if fits else 0
        wanted = dict.fromkeys((each.server.entry.name, each.remote.name) for each in kept)
        named = self.named()
        for name, (server, remote) in named.items():
            if self._room.get(server.entry.name) or name in self._brought_in:
                wanted[server.entry.name, remote.name] = None
        by_key = {(server.entry.name, remote.name): (name, server, remote) for name, (server, remote) in named.items()}
        self._made = {key: self._made_of(*by_key[key]) for key in wanted if key in by_key}
        return (self._search, *self._made.values())

    def _made_of(self, name: str, server: Server, remote: RemoteTool) -> ServerTool:
        before = self._made.get((server.entry.name, remote.name))
        if before is not None and before.remote == remote:
            return before
        settings = server.entry.settings
        reads = settings.trust_annotations and remote.read_only
        spec = ToolSpec(
            name=name,
            description=f"[MCP server {server.entry.name}] {remote.description}",
            parameters=remote.parameters,
            effect="reads" if reads else "runs",
            timeout_s=settings.call_s,
        )
        return ServerTool(spec, remote, server)

    def named(self) -> dict[str, tuple[Server, RemoteTool]]:
        """Every tool that there is, by the name it has here."""
        found: dict[str, tuple[Server, RemoteTool]] = {}
        for server in self._servers:
            for remote in server.tools:
                name = tool_name(server.entry.name, remote.name, found)
                if self._include is None or any(fnmatch.fnmatchcase(name, each) for each in self._include):
                    found[name] = (server, remote)
        return found

    # The tool that lists tools

    def _searching(self) -> Any:
        names = ", ".join(server.entry.name for server in self._servers)
        longest = max(
            (s.entry.settings.start_s + s.entry.settings.list_s for s in self._servers if not s.entry.problem),
            default=0,
        )

        @tool(effect="reads", name=SEARCH, timeout_s=longest + 5)
        async def mcp_tools(
            query: Annotated[str, "words that a tool's name or description must hold; empty: all"] = "",
            bring_in: Annotated[list[str], "names of tools that you want to call and are not offered yet"] = [],  # noqa: B006 - never changed
        ) -> ToolOutcome:
            await asyncio.gather(*(server.settled(longest) for server in self._servers))
            return self._found(query, bring_in)

        mcp_tools.__doc__ = (
            f"List the tools of the MCP servers ({names}), waiting for servers that are still starting. Tools that are"
            " not offered yet can be brought in by name, and called in the next step."
        )
        return mcp_tools

    def _found(self, query: str, bring_in: Sequence[str]) -> ToolOutcome:
        named = self.named()
        unknown = [name for name in bring_in if name not in named]
        for name in bring_in:
            if name in named:
                self._bring_in(name)
        words = query.lower().split()
        lines = [f"{server.entry.name}: {_standing(server)}" for server in self._servers]
        offered = {each.spec.name for each in self.tools()}
        for name, (_, remote) in named.items():
            said = f"{name} {remote.description}"
            if all(word in said.lower() for word in words):
                how = "" if name in offered else " (not offered: bring it in)"
                lines.append(f"- {name}{how}: {remote.description.partition(chr(10))[0][:LINE_CHARS]}")
        if unknown:
            lines.append(f"Unknown, so not brought in: {', '.join(unknown)}.")
        known = [name for name in bring_in if name in named]
        return ToolOutcome(
            output="\n".join(lines),
            outcome="failed" if unknown and not known else "ok",
            detail={BROUGHT_IN: ",".join(known)} if known else {},
        )


def _standing(server: Server) -> str:
    match server.state:
        case "ready":
            return f"ready, {len(server.tools)} tools"
        case "starting":
            return "still starting"
        case "failed" | "closed":
            return f"not there: it {server.why or 'was closed'}"
