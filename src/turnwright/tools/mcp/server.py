"""The life of one server beside the runtime: started, listed, called, restarted once, closed. Nobody waits for it who
does not call it."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from turnwright.schema.errors import MachineError, ToolFailure
from turnwright.schema.mcp import RemoteTool, ServerEntry, ServerState
from turnwright.tools.mcp.texts import remote_tool, wanted
from turnwright.tools.registry import in_thread

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from turnwright.machine.keeper import Keeper
    from turnwright.tools.mcp.connection import Connection

RESTARTS_MAX = 1
"""After a death that came while it was in use. One that does not come up is not tried again."""
SLOW_S = 5.0
"""A start that takes longer is on record before it is over."""
RELIST_PAUSE_S = 1.0
"""Between two looks at the tools of a server that goes on saying they have changed."""
CLOSE_S = 2.0
INSTALL = "the extra is not installed: pip install 'turnwright[mcp]'"


class Pins(Protocol):
    """What the user knows of the texts of tools."""

    def changed(self, entry: ServerEntry, tools: Sequence[RemoteTool]) -> frozenset[str]:
        """The names of those that are not what they were when they were first seen; new ones are remembered."""
        ...


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something about a server that belongs on record."""

    server: str
    state: ServerState
    text: str
    data: dict[str, str | int | float | bool | None] = {}


Listener = Callable[[Event], None]


class Server:
    """Made by `start`; one per entry and process, shared by its conversations."""

    def __init__(
        self,
        entry: ServerEntry,
        keeper: Keeper,
        env: Mapping[str, str],
        pins: Pins,
        monotonic: Callable[[], float],
        version: str,
    ) -> None:
        self.entry = entry
        self.state: ServerState = "starting"
        self.why = ""
        """Why it is not ready."""
        self.about = ""
        """What it calls itself."""
        self.tools: tuple[RemoteTool, ...] = ()
        """Those that may be offered. Another tuple whenever they are others."""
        self.held: tuple[RemoteTool, ...] = ()
        """Those whose text is not the one the user knows."""
        self.unfit: tuple[str, ...] = ()
        self._keeper, self._env, self._pins, self._monotonic, self._version = keeper, env, pins, monotonic, version
        self._connection: Connection | None = None
        self._listeners: list[Listener] = []
        self._news = asyncio.Event()
        self._over = asyncio.Event()
        """It has ended, or is to."""
        self._stale = self._dead = self._closing = self._was_ready = False
        self._last_words = ""
        self._restarts = 0
        self._began = monotonic()
        self._settled = asyncio.Event()
        self._calls: set[asyncio.Task[CallToolResult]] = set()
        self._task = asyncio.create_task(self._live(), name=f"mcp {entry.name}")

    def listen(self, listener: Listener) -> Callable[[], None]:
        """The result ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def standing(self) -> Event:
        """For whoever begins to listen when all is settled."""
        if self.state == "ready":
            return self._event(f"is ready with {len(self.tools)} tools{self._left_out()}", tools=len(self.tools))
        return self._event(self.why or f"is {self.state}")

    async def settled(self, within_s: float) -> bool:
        """Whether it is known by then what becomes of it."""
        try:
            async with asyncio.timeout(within_s):
                await self._settled.wait()
        except TimeoutError:
            return False
        return True

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        """ToolFailure where the server cannot be asked, or does not answer in its own terms. Cancelled, it returns at
        once, whatever the server makes of being told."""
        if self.state == "starting":
            await self._settled.wait()
        connection = self._connection
        if connection is None:
            raise ToolFailure(f"The MCP server {self.entry.name} {self.why or 'is closed'}.")
        calling = asyncio.create_task(connection.call(tool, arguments))
        self._calls.add(calling)
        calling.add_done_callback(self._forget)
        try:
            await asyncio.wait([calling])
        except asyncio.CancelledError:
            calling.cancel()
            raise
        if calling.cancelled():
            raise ToolFailure(f"The MCP server {self.entry.name} was closed during the call.")
        if (error := calling.exception()) is not None:
            raise self._failure(error, connection) from error
        return calling.result()

    def _forget(self, calling: asyncio.Task[CallToolResult]) -> None:
        self._calls.discard(calling)
        if not calling.cancelled():
            calling.exception()  # nobody may be left to hear of it

    def _failure(self, error: BaseException, connection: Connection) -> ToolFailure:
        if connection.is_lost(error):
            why = self._last_words or connection.said(error)
            return ToolFailure(
                f"The MCP server {self.entry.name} ended during the call ({why}). "
                "Whether the call had its effect is unknown: look before you repeat it."
            )
        return ToolFailure(f"The MCP server {self.entry.name} says: {connection.said(error)}.")

    async def close(self) -> None:
        """Within two seconds, whatever it does; what it started is gone."""
        self._closing = True
        self._over.set()
        self._news.set()
        for calling in list(self._calls):
            calling.cancel()
        ready = self._connection is not None
        done, _ = await asyncio.wait([self._task], timeout=CLOSE_S if ready else 0)
        if not done:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CLOSE_S)
        self.state, self._connection = "closed", None
        self._settled.set()

    # Its life

    async def _live(self) -> None:
        try:
            await self._lives()
        finally:
            self._settled.set()

    async def _lives(self) -> None:
        why = self.entry.problem
        while not why:
            self._was_ready = self._dead = False
            self._over.clear()
            slow = asyncio.get_running_loop().call_later(SLOW_S, self._say_slow)
            try:
                ended = await self._one_life()
            finally:
                slow.cancel()
            self._lose_connection()
            if not self._was_ready or self._restarts == RESTARTS_MAX:
                why = ended
            elif not self._closing:
                self._restarts += 1
                self._tell(f"{ended}; it is started again", restarts=self._restarts)
            if self._closing:
                return
        self._fail(why)

    async def _one_life(self) -> str:
        """From its start to its end, and why that came."""
        self._began = self._monotonic()
        settings = self.entry.settings
        phase = f"did not answer the handshake within {settings.start_s:g} s"
        try:
            # In a thread: it takes half a second, in which a turn has better things to do, its end among them.
            module = await in_thread(lambda: importlib.import_module("turnwright.tools.mcp.connection"))
            starting = module.connected(
                self.entry,
                self._keeper,
                self._env,
                version=self._version,
                changed=self._has_changed,
                ended=self._has_ended,
            )
            async with _entered(starting, settings.start_s) as connection:
                phase = f"did not list its tools within {settings.list_s:g} s"
                async with asyncio.timeout(settings.list_s):
                    listed = await connection.tools()
                self._ready(connection, listed)
                phase = f"did not list its tools again within {settings.list_s:g} s"
                await self._until_over(connection)
        except Exception as error:  # noqa: BLE001 - the rim of foreign code: whatever it is, it is said
            return self._ended_as(_why(error, phase))
        return self._ended_as("ended")

    def _ended_as(self, what: str) -> str:
        if self._dead:
            return f"ended by itself{f' ({self._last_words})' if self._last_words else ''}"
        return what

    async def _until_over(self, connection: Connection) -> None:
        listening = asyncio.create_task(connection.hear_of_changes(self._has_changed))
        try:
            while not self._over.is_set():
                await self._news.wait()
                self._news.clear()
                if self._stale and not self._over.is_set():
                    self._stale = False
                    async with asyncio.timeout(self.entry.settings.list_s):
                        self._ready(connection, await connection.tools())
                    with suppress(TimeoutError):
                        async with asyncio.timeout(RELIST_PAUSE_S):
                            await self._over.wait()
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    def _has_changed(self) -> None:
        self._stale = True
        self._news.set()

    def _has_ended(self, last_words: str) -> None:
        self._dead, self._last_words = True, last_words
        self._over.set()
        self._lose_connection()
        self._news.set()

    def _lose_connection(self) -> None:
        """Whoever calls from here on waits for what becomes of it."""
        self.state, self._connection = "starting", None
        self._settled.clear()

    def _ready(self, connection: Connection, listed: Sequence[dict[str, Any]]) -> None:
        read = [remote_tool(each) for each in listed]
        self.unfit = tuple(each for each in read if isinstance(each, str))
        found = {each.name: each for each in read if not isinstance(each, str) and wanted(each, self.entry.settings)}
        changed = self._pins.changed(self.entry, tuple(found.values()))
        first, self._was_ready = self._connection is None, True
        tools = tuple(each for each in found.values() if each.name not in changed)
        same = tools == self.tools
        self._connection, self.about, self.state = connection, connection.server, "ready"
        self.tools = self.tools if same else tools
        self.held = tuple(found[name] for name in sorted(changed))
        self._settled.set()
        if first or not same:
            took = self._monotonic() - self._began
            said = f"is ready after {took:.1f} s with {len(tools)} tools" if first else f"has other tools: {len(tools)}"
            self._tell(f"{said}{self._left_out()}", tools=len(tools), held=len(self.held))

    def _left_out(self) -> str:
        held = ", ".join(each.name for each in self.held)
        said = f"; not what they were when first seen, so not offered: {held}" if held else ""
        return said + (f"; unfit: {'; '.join(self.unfit[:5])}" if self.unfit else "")

    def _say_slow(self) -> None:
        if self.state == "starting":
            self._tell(f"is still starting after {SLOW_S:g} s: nobody waits for it")

    def _fail(self, why: str) -> None:
        self.state, self.why, self.tools = "failed", why, ()
        self._settled.set()
        self._tell(why)

    def _tell(self, text: str, **data: str | int | float | bool | None) -> None:
        event = self._event(text, **data)
        for listener in list(self._listeners):
            listener(event)

    def _event(self, text: str, **data: str | int | float | bool | None) -> Event:
        name = self.entry.name
        said = f"the MCP server {name} {text}"
        return Event(server=name, state=self.state, text=said, data={"server": name, "state": self.state, **data})


class _entered:  # noqa: N801 - used like a function
    """A context whose beginning has a time limit, and whose middle has none."""

    def __init__(self, context: Any, within_s: float) -> None:
        self._context, self._within_s = context, within_s

    async def __aenter__(self) -> Any:
        async with asyncio.timeout(self._within_s):
            return await self._context.__aenter__()

    async def __aexit__(self, *error: Any) -> Any:
        return await self._context.__aexit__(*error)


def _why(error: Exception, phase: str) -> str:
    """What it is that came out of its start or its life, mostly in a group of one."""
    first: BaseException = error
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    match first:
        case TimeoutError():
            return phase
        case ModuleNotFoundError(name=name):
            return f"is not started: {INSTALL} ({name} is missing)"
        case MachineError() | OSError():
            return f"cannot be started: {_words(first)}"
        case _:
            return f"failed: {_words(first)}"


def _words(error: BaseException) -> str:
    notes = f" ({'; '.join(error.__notes__)})" if hasattr(error, "__notes__") else ""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or type(error).__name__}: {error.strerror}{notes}"
    lines = str(error).splitlines() or [type(error).__name__]
    return f"{lines[0][:400]}{notes}"
