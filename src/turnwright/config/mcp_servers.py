"""From a server as it is written, in settings or in a project's `.mcp.json`, to one that can be started: variables
filled in, and what must be kept secret named."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from turnwright.config.tool_environment import PASSED
from turnwright.schema.errors import ConfigError
from turnwright.schema.masking import names_a_secret
from turnwright.schema.mcp import McpServer, ServerEntry
from turnwright.schema.trust import canonical

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class _Written(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of `.mcp.json` in the shape that others read too. What else it has is not for us."""

    type: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    disabled: bool = False


class _Unset(Exception):
    """A variable that is not set."""


def server_of_project(written: Any) -> McpServer | str:
    """Text where it cannot be read, or not be used, and why."""
    try:
        entry = msgspec.convert(written, _Written)
    except msgspec.ValidationError as bad:
        return f"cannot be read: {bad}"
    if entry.type == "sse":
        return "speaks the older transport `sse`: only `stdio` and `http` are spoken here"
    server = McpServer(
        command=entry.command,
        args=entry.args,
        env=entry.env,
        cwd=entry.cwd,
        url=entry.url,
        headers=entry.headers,
        enabled=not entry.disabled,
    )
    return wrong_with(server) or server


def wrong_with(server: McpServer) -> str:
    """Empty where it says how it is reached."""
    if bool(server.command) == bool(server.url):
        return "needs either a command or a url"
    if server.url and not server.url.startswith(("http://", "https://", "${")):
        return "has a url that does not begin with http:// or https://"
    return ""


def check_server(name: str, server: McpServer, place: str) -> None:
    if wrong := wrong_with(server):
        raise ConfigError(
            f"{place}: mcp.servers.{name} {wrong}.",
            remedy="Give `command` (and `args`) for a program, `url` for a server on the network.",
        )


def entry_of_server(
    name: str, server: McpServer | str, source: str, workspace: Path, environ: Mapping[str, str]
) -> ServerEntry:
    """`server` is text where nothing can be made of it."""
    if isinstance(server, str):
        return ServerEntry(name=name, settings=McpServer(), source=source, sha256="", problem=server)
    secrets: dict[str, None] = {}

    def filled(text: str, named: str = "") -> str:
        value = _VARIABLE.sub(_looking_in(environ, secrets), text)
        if named and names_a_secret(named):
            secrets[value.rpartition(" ")[2]] = None
        return value

    try:
        settings = msgspec.structs.replace(
            server,
            command=filled(server.command),
            args=tuple(filled(each) for each in server.args),
            env={key: filled(value, key) for key, value in server.env.items()},
            headers={key: filled(value, key) for key, value in server.headers.items()},
            url=filled(server.url),
            cwd=str(workspace / Path(filled(server.cwd)).expanduser()),
        )
        problem = wrong_with(settings)
    except _Unset as unset:
        settings, problem = server, f"names the variable {unset}, which is not set"
    return ServerEntry(
        name=name,
        settings=settings,
        source=source,
        sha256=_identity(server),
        secrets=tuple(each for each in secrets if each),
        problem=problem,
    )


def _looking_in(environ: Mapping[str, str], secrets: dict[str, None]) -> Callable[[re.Match[str]], str]:
    """What comes from the environment is taken for a secret, but for what every tool may see."""

    def look(found: re.Match[str]) -> str:
        name, otherwise = found[1], found[2]
        value = environ.get(name) or otherwise
        if value is None:
            raise _Unset(name)
        if name in environ and name not in PASSED:
            secrets[value] = None
        return value

    return look


def _identity(server: McpServer) -> str:
    """Of what is started or asked; that some other of its tools are allowed now makes it no other server."""
    is_it = (server.command, server.args, server.env, server.cwd, server.url, server.headers)
    return hashlib.sha256(canonical(is_it)).hexdigest()
