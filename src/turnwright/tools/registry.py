"""Tools as the turn loop knows them: typed functions offered by mode, checked before they run, bounded when they do.

An exception out of a tool is one of three things. `ToolFailure` is its answer: the model reads output and error.
`MachineError` and its like are the world's fault, said in the same way. Anything else is a bug of the tool, and the
result says so by type and place, so that nobody looks for it in the arguments. Cancellation and a broken journal pass.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import msgspec

from turnwright.schema.errors import ConfigError, InputError, JournalError, MachineError, ToolFailure
from turnwright.schema.messages import Image
from turnwright.schema.modes import Offer
from turnwright.schema.prompt import ToolSpec
from turnwright.schema.tools import Ready, ToolOutcome, Unfit
from turnwright.schema.verdicts import Effect
from turnwright.tools.context import CallContext, FromThread, States, ToolContext
from turnwright.tools.shorten import BYTES_MAX, LINES_MAX, plain, shorten
from turnwright.tools.signature import read_signature

if TYPE_CHECKING:
    from turnwright.machine.port import Machine

Function = TypeVar("Function", bound=Callable[..., Any])

TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")

MODES: Mapping[str, Offer] = {"plan": Offer(frozenset({"reads"})), "build": Offer()}
"""What a mode offers, where nothing is configured."""

_DECLARED = "__turnwright_tool__"


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """What `@tool` says about a function. An undeclared one may do anything, so it runs alone and only once."""

    effect: Effect = "runs"
    concurrent: bool = False
    timeout_s: float | None = None
    name: str = ""


def tool(
    *, effect: Effect, concurrent: bool = False, timeout_s: float | None = None, name: str = ""
) -> Callable[[Function], Function]:
    """Declare what a function does to the world. It stays an ordinary function; nothing is computed at import."""
    declared = Declared(effect=effect, concurrent=concurrent, timeout_s=timeout_s, name=name)

    def mark(function: Function) -> Function:
        setattr(function, _DECLARED, declared)
        return function

    return mark


@runtime_checkable
class Tool(Protocol):
    """Anything a toolbox can hold: a function (see `FunctionTool`), or a tool of an MCP server."""

    @property
    def spec(self) -> ToolSpec: ...

    def problem(self, arguments: dict[str, Any]) -> str:
        """How the arguments break the schema; empty when they fit."""
        ...

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome: ...


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A typed function as a tool."""

    spec: ToolSpec
    function: Callable[..., Any]
    arguments: type[msgspec.Struct]
    context: str | None

    @staticmethod
    @lru_cache(maxsize=256)
    def of(function: Callable[..., Any]) -> FunctionTool:
        """Read once: a process of many conversations gives each the same functions."""
        declared: Declared = getattr(function, _DECLARED, Declared())
        name = declared.name or function.__name__
        if TOOL_NAME.fullmatch(name) is None:
            raise ConfigError(f"{name!r} cannot name a tool; use letters, digits and _, at most 64.")
        read = read_signature(function, name)
        spec = ToolSpec(
            name=name,
            description=read.description,
            parameters=read.parameters,
            effect=declared.effect,
            concurrent=declared.concurrent,
            timeout_s=declared.timeout_s,
        )
        return FunctionTool(spec=spec, function=function, arguments=read.arguments, context=read.context)

    def problem(self, arguments: dict[str, Any]) -> str:
        try:
            msgspec.convert(arguments, self.arguments)
        except msgspec.ValidationError as bad:
            return _violations(self.arguments, arguments, str(bad))
        return ""

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        given = msgspec.structs.asdict(msgspec.convert(arguments, self.arguments))
        if inspect.iscoroutinefunction(self.function):
            if self.context is not None:
                given[self.context] = context
            return _outcome_of(await self.function(**given))
        if self.context is not None:
            call = FromThread(context.call, asyncio.get_running_loop())
            given[self.context] = ToolContext(call, context.states, context.machine_or_none)
        return _outcome_of(await in_thread(lambda: self.function(**given)))


class Source(Protocol):
    """Tools that come and go while a conversation runs."""

    def tools(self) -> tuple[Tool, ...]:
        """Those that there are now. The same tuple while they are the same."""
        ...


class Toolbox:
    """One conversation's tools and what they remember. Satisfies `kernel.ports.Tools`."""

    def __init__(
        self,
        tools: Sequence[Tool | Callable[..., Any]],
        *,
        machine: Machine | None = None,
        source: Source | None = None,
        modes: Mapping[str, Offer] = MODES,
        only: frozenset[str] | None = None,
        bytes_max: int = BYTES_MAX,
        lines_max: int = LINES_MAX,
    ) -> None:
        self._tools: dict[str, Tool] = {}
        for each in tools:
            made = each if isinstance(each, Tool) else FunctionTool.of(each)
            if made.spec.name in self._tools:
                raise ConfigError(f"two tools are named {made.spec.name!r}; rename one with @tool(name=...).")
            self._tools[made.spec.name] = made
        if only is not None:
            self._tools = {name: made for name, made in self._tools.items() if name in only}
        self._own = dict(self._tools)
        self._only = only
        self._source = source
        self._taken: tuple[Tool, ...] = ()
        self._machine = machine
        self._modes = modes
        self._offered: dict[str, tuple[ToolSpec, ...]] = {}
        self._bytes_max, self._lines_max = bytes_max, lines_max
        self.states = States()

    def offered(self, mode: str) -> tuple[ToolSpec, ...]:
        """The tools of a mode, in the order they were given, then those of the source. The same tuple while nothing
        changes: what changes is taken up here, between two steps."""
        if self._source is not None and (now := self._source.tools()) is not self._taken:
            self._taken = now
            named = {each.spec.name: each for each in now if self._only is None or each.spec.name in self._only}
            self._tools = self._own | {name: each for name, each in named.items() if name not in self._own}
            self._offered.clear()
        if mode not in self._offered:
            if mode not in self._modes:
                raise ConfigError(f"there is no mode {mode!r}; known modes: {', '.join(self._modes)}.")
            offer = self._modes[mode]
            self._offered[mode] = tuple(t.spec for t in self._tools.values() if offer.allows(t.spec))
        return self._offered[mode]

    def check(self, name: str, arguments: str) -> Ready | Unfit:
        """Parse and validate; empty arguments mean `{}`."""
        if name not in self._tools:
            return Unfit(self._unknown(name))
        try:
            parsed = msgspec.json.decode(arguments) if arguments.strip() else {}
        except msgspec.DecodeError as bad:
            return Unfit(f"The arguments of {name} are not valid JSON: {bad}. Send one whole JSON object.")
        if not isinstance(parsed, dict):
            return Unfit(f"The arguments of {name} must be a JSON object, not {_json_kind(parsed)}.")
        problem = self._tools[name].problem(parsed)
        return Unfit(f"The arguments of {name} do not fit its schema: {problem}") if problem else Ready(parsed)

    async def run(self, name: str, arguments: dict[str, Any], context: CallContext) -> ToolOutcome:
        """Never raises for a tool's failure."""
        if name not in self._tools:
            return ToolOutcome(output=self._unknown(name), outcome="failed")
        return self._bounded(await self._attempt(self._tools[name], arguments, context))

    async def close(self) -> None:
        """End what the tools still hold."""
        await self.states.close()

    async def _attempt(self, tool: Tool, arguments: dict[str, Any], context: CallContext) -> ToolOutcome:
        surroundings = ToolContext(context, self.states, self._machine)
        limit = tool.spec.timeout_s
        try:
            async with asyncio.timeout(limit) as timer:
                return await tool.run(arguments, surroundings)
        except ToolFailure as failure:
            return ToolOutcome(output=_joined(failure.output, f"Error: {failure}"), outcome="failed")
        except (MachineError, InputError) as fault:
            return ToolOutcome(output=f"Error: {fault}", outcome="failed")
        except JournalError:
            raise
        except Exception as bug:  # noqa: BLE001 - the rim of foreign code: reported as a bug, never swallowed
            if isinstance(bug, TimeoutError) and timer.expired():
                said = f"Error: {tool.spec.name} was stopped at its time limit of {limit:g} s."
                return ToolOutcome(output=said, outcome="timeout")
            return _fault(tool.spec.name, bug)

    def _bounded(self, outcome: ToolOutcome) -> ToolOutcome:
        text = plain(outcome.output)
        short = shorten(text, bytes_max=self._bytes_max, lines_max=self._lines_max)
        if short.original_bytes is None:
            return outcome if text is outcome.output else msgspec.structs.replace(outcome, output=text)
        size = short.original_bytes if outcome.original_bytes is None else outcome.original_bytes
        return msgspec.structs.replace(outcome, output=short.text, original_bytes=size)

    def _unknown(self, name: str) -> str:
        import difflib

        near = difflib.get_close_matches(name, self._tools, n=3, cutoff=0.5)
        offer = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(self._tools) or 'none'}."
        return f"There is no tool named {name!r}. {offer}"


async def in_thread(work: Callable[[], Any]) -> Any:
    """Run sync code beside the loop, in a daemon thread of its own.

    Not the loop's pool: a tool that never returns would hold the interpreter's exit and use up a shared worker.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    copied = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def target() -> None:
        result, error = None, None
        try:
            result = copied.run(work)
        except BaseException as raised:  # noqa: BLE001 - handed to the awaiting task, which raises it there
            error = RuntimeError(repr(raised)) if isinstance(raised, StopIteration | KeyboardInterrupt) else raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=target, name="tool", daemon=True).start()
    return await done


def _outcome_of(returned: Any) -> ToolOutcome:
    match returned:
        case ToolOutcome():
            return returned
        case str():
            return ToolOutcome(output=returned)
        case None:
            return ToolOutcome(output="")
        case Image():
            return ToolOutcome(output="", images=(returned,))
        case _:
            return ToolOutcome(output=msgspec.json.encode(returned, enc_hook=str).decode())


def _fault(name: str, bug: Exception) -> ToolOutcome:
    import traceback

    frames = traceback.extract_tb(bug.__traceback__)
    place = f"{frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno}" if frames else "an unknown place"
    kind = type(bug).__name__
    said = f"Internal fault of the tool {name}, not of your arguments: {kind} at {place}: {bug}"
    return ToolOutcome(output=said, outcome="failed", detail={"bug": f"{kind} at {place}"})


def _joined(output: str, error: str) -> str:
    return f"{output.rstrip()}\n\n{error}" if output.strip() else error


def _violations(kind: type[msgspec.Struct], arguments: dict[str, Any], first: str) -> str:
    """All unknown and missing names at once, so that one more try can mend them; else the first violation."""
    import difflib

    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    found = []
    for unknown in arguments.keys() - fields.keys():
        near = difflib.get_close_matches(unknown, fields, n=1)
        found.append(f"`$.{unknown}` is not an argument" + (f" (did you mean `{near[0]}`?)" if near else ""))
    found += [f"`$.{name}` is missing" for name, field in fields.items() if field.required and name not in arguments]
    known = ", ".join(f"{name} (required)" if field.required else name for name, field in fields.items())
    return f"{'; '.join(sorted(found)) or first}. It takes: {known or 'no arguments'}."


def _json_kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case _:
            return "a list"
