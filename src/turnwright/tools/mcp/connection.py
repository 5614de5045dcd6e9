"""One conversation with one server, by the official SDK. Imported where a server is really started: the SDK takes half
a second of anybody's start."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcp import MCPError
from mcp.client.client import Client
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types import CONNECTION_CLOSED, CallToolResult, Implementation, ToolListChangedNotification

from turnwright.machine.keeper import Keeper
from turnwright.machine.talking import start_talking
from turnwright.schema.mcp import ServerEntry
from turnwright.tools.mcp.http import Told, http_streams
from turnwright.tools.mcp.stdio import stdio_streams
from turnwright.tools.mcp.texts import TOOLS_MAX

PAGES_MAX = 50

# The SDK logs what a server does wrong, with tracebacks, to whoever has not said otherwise: our users' terminals. What
# matters of it is said in a note.
for _name in ("mcp", "client", "httpx2", "httpcore2"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class Connection:
    """`Client` with what we need of it."""

    def __init__(self, client: Client, told: Told) -> None:
        self._client = client
        self._told = told

    @property
    def server(self) -> str:
        """What the server calls itself."""
        info = self._client.server_info
        return f"{info.name} {info.version}" if info else ""

    async def tools(self) -> list[dict[str, Any]]:
        """All pages, up to a bound: a server that turns them for ever is cut off."""
        if self._client.server_capabilities.tools is None:
            return []
        listed: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(PAGES_MAX):
            page = await self._client.list_tools(cursor=cursor, cache_mode="bypass")
            listed += [each.model_dump(by_alias=True, mode="json", exclude_none=True) for each in page.tools]
            if page.next_cursor is None or page.next_cursor == cursor or len(listed) >= TOOLS_MAX:
                break
            cursor = page.next_cursor
        return listed[:TOOLS_MAX]

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        return await self._client.call_tool(tool, arguments)

    async def hear_of_changes(self, changed: Callable[[], None]) -> None:
        """Newer servers tell of changes only to those who listen; older ones tell everybody."""
        with contextlib.suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            async with self._client.listen(tools_list_changed=True) as changes:
                changed()  # what has happened before it was heard is told to nobody
                async for _ in changes:
                    changed()

    @staticmethod
    def is_lost(error: BaseException) -> bool:
        """Nobody knows what became of the call."""
        return isinstance(error, MCPError) and error.code == CONNECTION_CLOSED

    def said(self, error: BaseException) -> str:
        """A failure in words."""
        if isinstance(error, MCPError) and self._told.status:
            return f"{error.error.message} ({self._told.status})"
        return str(error).partition("\n")[0][:400] or type(error).__name__


@asynccontextmanager
async def connected(
    entry: ServerEntry,
    keeper: Keeper,
    env: Mapping[str, str],
    *,
    version: str,
    changed: Callable[[], None],
    ended: Callable[[str], None],
) -> AsyncIterator[Connection]:
    """Started, and the handshake done; `version` is ours. `ended` is told when the server ends the conversation,
    `changed` when it has other tools."""
    told = Told()

    async def hear(message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed()

    try:
        client = Client(
            _streams(entry, keeper, env, ended, told),
            message_handler=hear,
            client_info=Implementation(name="turnwright", version=version),
            cache=None,
        )
        async with client:
            yield Connection(client, told)
    except Exception as error:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if told.status:
            error.add_note(told.status)
        raise error from None


@asynccontextmanager
async def _streams(
    entry: ServerEntry, keeper: Keeper, env: Mapping[str, str], ended: Callable[[str], None], told: Told
) -> AsyncIterator[Any]:
    settings = entry.settings
    if settings.url:
        async with http_streams(settings.url, settings.headers, settings.call_s, told) as streams:
            yield streams
        return
    argv = [settings.command, *settings.args]
    talk = await start_talking(keeper, argv, {**env, **settings.env}, settings.cwd)

    def on_end(why: str) -> None:
        last = talk.said().strip().splitlines()[-3:]
        ended("; ".join(filter(None, [why, " | ".join(last)[-400:]])))

    async with stdio_streams(talk, on_end) as streams:
        yield streams
