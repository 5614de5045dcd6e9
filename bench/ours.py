"""Turnwright as its users meet it, through the public API: journal durable, everything as by default."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

from turnwright import Agent, Limits, standard_tools, tool
from turnwright.app.engine import Engine, open_engine
from turnwright.app.turns import first_turn
from turnwright.config.load import Flag, load
from turnwright.schema.facts import ConversationOpened
from turnwright.session.conversation import Session

MODEL = "bench"
MAX_STEPS = 5_000
MANY_CALLS = "guards: {tool_budget: {calls: 5000}}\n"
"""Everything else is as by default: the guards watch, the bytes of what fails are kept."""


on_call: list[Callable[[], object]] = []
"""Called at each call of a tool that does nothing: so steps are counted where no event is watched."""


def _called() -> None:
    for callback in on_call:
        callback()


async def noop(index: int = 0) -> str:
    """Does nothing.

    Args:
        index: Makes one call different from another.
    """
    _called()
    return f"ok {index}"


PAGE_BYTES = 10_000
PAGE = "".join(f"{number:4}\tvalue = measure(value, {number})  # as before\n" for number in range(120, 160))
"""What `look` returns: forty lines, as a tool that reads a file gives them."""


async def look(path: str, line: int = 1) -> str:
    """Does nothing, and returns a page of text.

    Args:
        path: Any text.
        line: Any number.
    """
    _called()
    return f"{PAGE}{line:4}\tvalue = measure(value, {line})\n"


@tool(effect="reads")
async def nap(index: int) -> str:
    """Sleep for 200 ms.

    Args:
        index: Makes one call different from another.
    """
    await asyncio.sleep(0.2)
    return f"slept {index}"


async def swallow(text: str) -> str:
    """Take a long text.

    Args:
        text: Any text.
    """
    return f"{len(text)} characters"


@tool(effect="reads")
async def page(index: int) -> str:
    """Read 10 KB, each page another.

    Args:
        index: Which.
    """
    return text_of_page(index)


def text_of_page(index: int) -> str:
    """Like source code: it can be compressed about as well."""
    lines = (sha256(f"{index} {number}".encode()).hexdigest() for number in range(200))
    return "".join(f"{number:4}\t{line[:30]} = measure({line[:12]})\n" for number, line in enumerate(lines))[
        :PAGE_BYTES
    ]


SMALL_TOOLS = (noop, look, nap, swallow, page)


@asynccontextmanager
async def agent(base_url: str, home: Path, *, real_tools: bool = False, config: str = "") -> AsyncIterator[Agent]:
    """With a workspace, a journal and, where `config` is given, a configuration file below `home`."""
    workspace = workspace_in(home)
    file = home / "bench.yaml"
    file.write_text(MANY_CALLS + config, encoding="utf-8")
    made = Agent(
        MODEL,
        base_url=f"{base_url}/v1",
        dialect="openai-chat",
        tools=standard_tools() if real_tools else SMALL_TOOLS,
        workspace=workspace,
        data_dir=home / "data",
        config=file,
        limits=Limits(max_steps=MAX_STEPS),
    )
    async with made:
        yield made


@asynccontextmanager
async def session(base_url: str, home: Path) -> AsyncIterator[Session]:
    """One session for many conversations, as a server has it. Its data lie where TURNWRIGHT_HOME says."""
    async with engine(base_url, home) as opened, session_of(opened, home) as made:
        yield made


@asynccontextmanager
async def engine(base_url: str, home: Path) -> AsyncIterator[Engine]:
    flags = [
        Flag(path=("model",), value=f"endpoint/{MODEL}", flag="model="),
        Flag(path=("providers", "endpoint", "base_url"), value=f"{base_url}/v1", flag="base_url="),
    ]
    async with open_engine(load(workspace_in(home), flags=flags)) as opened:
        yield opened


@asynccontextmanager
async def session_of(engine: Engine, home: Path) -> AsyncIterator[Session]:
    async with engine.session(workspace_in(home), tools=SMALL_TOOLS) as opened:
        yield opened


@asynccontextmanager
async def conversation(session: Session, task: str) -> AsyncIterator[None]:
    """Held open after its first turn."""
    opened = ConversationOpened(workspace="bench", model=MODEL, turnwright="bench")
    async with first_turn(session, task, opened) as running:
        async for _ in running:
            pass
        assert running.outcome is not None and running.outcome.reason == "stop", running.outcome
        yield


def workspace_in(home: Path) -> Path:
    workspace = home / "workspace"
    workspace.mkdir(exist_ok=True)
    return workspace
