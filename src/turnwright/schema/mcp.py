"""MCP servers: what a user may set about them, what is asked of them, and what is known of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]


class McpServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`mcp.servers.<name>`: a server, started as a command or reached at an address. `${NAME}` and `${NAME:-default}`
    in its command, arguments, folder, address, variables and headers stand for variables of the environment: that is
    where keys belong."""

    command: str = ""
    """The program to start. It speaks on stdin and stdout, in an environment as clean as that of any tool."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env: dict[str, str] = {}
    """Further variables for it."""
    cwd: str = ""
    """The folder it is started in. Empty: the workspace."""
    url: str = ""
    """The address of a server that speaks streamable HTTP, in place of a command."""
    headers: dict[str, str] = {}
    """Further headers of every request to it."""
    enabled: bool = True
    """Off: it is not started."""
    allow: tuple[str, ...] | None = None
    """Only these of its tools, by the names it gives them; `*` stands for any letters. Left out: all."""
    deny: tuple[str, ...] = ()
    """None of these, though they be allowed."""
    trust_annotations: bool = False
    """Believe it which of its tools only read. Those then run side by side, in plan mode too, and are repeated after a
    crash. Otherwise each of its tools counts as one that may do anything."""
    start_s: Seconds = 30.0
    """How long it may take until it has answered the handshake."""
    list_s: Seconds = 15.0
    """How long it may take to list its tools."""
    call_s: Seconds = 120.0
    """How long a call may take."""


class Mcp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`mcp`: servers whose tools the model is offered beside our own."""

    servers: dict[str, McpServer] = {}
    project_file: bool = True
    """Use the servers that the project's `.mcp.json` names, once it is trusted."""
    wait_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """How long a run waits at its start for servers that are not ready. 0: not at all, their tools join at a later
    step."""
    offered_max: Annotated[int, msgspec.Meta(ge=0)] = 40
    """So many tools of servers are offered from the start. Those of further servers are only listed by `mcp_tools`,
    which brings in the ones that the model names: each offered tool is sent with every request."""


class ServerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A server as it is to be started: variables filled in."""

    name: str
    settings: McpServer
    source: str
    """Where it was configured, for people."""
    sha256: str
    """Of the entry as it was written, variables not filled in: what its tools' texts are pinned under."""
    secrets: tuple[str, ...] = ()
    """What must be shown nowhere."""
    problem: str = ""
    """Why it is not started; empty where it is."""


class RemoteTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as its server describes it."""

    name: str
    description: str
    parameters: dict[str, Any]
    read_only: bool
    """The server says so."""
    sha256: str
    """Of all that the model is told of it."""


ServerState: TypeAlias = Literal["starting", "ready", "failed", "closed"]
