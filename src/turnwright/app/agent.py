"""The Python API: an agent is a model, tools and limits; each task it is given is a conversation in its journal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from turnwright.app.engine import Engine, nobody_answers, open_engine
from turnwright.app.running import Running
from turnwright.app.turns import first_turn, next_turn, opening
from turnwright.config.load import Flag, Loaded, load
from turnwright.kernel.loop import TurnOutcome
from turnwright.kernel.ports import Ask, Model, Question
from turnwright.schema.errors import UsageError
from turnwright.schema.ids import ConversationId
from turnwright.schema.limits import Limits, check_limits
from turnwright.schema.parts import Usage
from turnwright.schema.permissions import Permissions
from turnwright.schema.settings import ENDPOINT
from turnwright.schema.verdicts import StopReason
from turnwright.session.broadcast import Event


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a task. `text` is the last thing said to the user; only `reason == "stop"` is a success."""

    conversation_id: ConversationId
    text: str
    reason: StopReason
    detail: str
    steps: int
    usage: Usage
    cost_usd: float | None
    denials: int

    @property
    def ok(self) -> bool:
        return self.reason == "stop"


class Agent:
    """`tools` are all that the model is offered: left out, the standard ones. A tool is a typed function with a
    docstring, or one decorated with `turnwright.tool`.

    Used on its own, each run opens the journal and closes it again; inside `async with agent:` it stays open.
    """

    def __init__(
        self,
        model: str | Model,
        *,
        base_url: str | None = None,
        dialect: str | None = None,
        api_key: str | None = None,
        tools: Sequence[Callable[..., Any]] | None = None,
        workspace: str | os.PathLike[str] = ".",
        data_dir: str | os.PathLike[str] | None = None,
        config: str | os.PathLike[str] | None = None,
        limits: Limits | None = None,
        mode: str = "",
        ask: Callable[[str, Sequence[str]], Awaitable[str | None]] | None = None,
        trust_workspace: bool = False,
        permissions: Permissions | None = None,
    ) -> None:
        """`trust_workspace`: the settings, instructions and skills that the workspace brings are used as they are. Left
        out, only what the user has trusted (`turnwright trust`). `permissions`: in place of those of the settings."""
        self._model = model
        self._endpoint = _endpoint_flags(model, base_url, dialect)
        self._api_key = api_key
        self._tools = tools
        self._workspace = Path(workspace).absolute()
        self._data_dir = Path(data_dir).absolute() if data_dir is not None else None
        self._config = Path(config) if config is not None else None
        self._limits = check_limits(limits) if limits is not None else None
        self._mode = mode
        self._ask: Ask = _asking(ask) if ask is not None else nobody_answers
        self._trust_workspace = trust_workspace
        self._permissions = permissions
        self._engine: Engine | None = None
        self._opened: Any = None

    async def __aenter__(self) -> Self:
        self._opened = open_engine(self._loaded())
        self._engine = await self._opened.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine = None
        await self._opened.__aexit__(kind, error, trace)

    async def run(self, task: str, *, conversation_id: ConversationId | None = None) -> Answer:
        """Do the task. With `conversation_id` it is the next turn of that conversation."""
        async with self._running(task, conversation_id) as running:
            return _answer(await running.unwatched(), running.conversation_id)

    def run_sync(self, task: str, *, conversation_id: ConversationId | None = None) -> Answer:
        """The same, for programs without an event loop."""
        return asyncio.run(self.run(task, conversation_id=conversation_id))

    async def stream(self, task: str, *, conversation_id: ConversationId | None = None) -> AsyncGenerator[Event, None]:
        """Facts (`turnwright.Recorded`) and live events as they happen. Leaving the loop early stops the turn."""
        async with self._running(task, conversation_id) as running:
            async for event in running:
                yield event

    @asynccontextmanager
    async def _running(self, task: str, conversation_id: ConversationId | None) -> AsyncIterator[Running]:
        if self._engine is not None:
            async with self._turn(self._engine, task, conversation_id) as running:
                yield running
            return
        async with (
            open_engine(self._loaded()) as engine,
            self._turn(engine, task, conversation_id) as running,
        ):
            yield running

    @asynccontextmanager
    async def _turn(self, engine: Engine, task: str, conversation_id: ConversationId | None) -> AsyncIterator[Running]:
        model = None if isinstance(self._model, str) else self._model
        async with engine.session(
            self._workspace,
            model=model,
            tools=self._tools,
            api_key=self._api_key,
            ask=self._ask,
            permissions=self._permissions,
            mode=self._mode,
        ) as session:
            if conversation_id is None:
                opened = opening(engine.loaded.settings, self._workspace, "" if model is None else "given")
                turn = first_turn(session, task, opened)
            else:
                turn = next_turn(session, conversation_id, task)
            async with turn as running:
                yield running

    def _loaded(self) -> Loaded:
        loaded = load(self._workspace, file=self._config, flags=self._endpoint, trust_all=self._trust_workspace)
        if self._limits is not None:
            loop = msgspec.structs.replace(loaded.settings.loop, limits=self._limits)
            loaded = msgspec.structs.replace(loaded, settings=msgspec.structs.replace(loaded.settings, loop=loop))
        if self._data_dir is not None:
            folders = msgspec.structs.replace(loaded.folders, data=self._data_dir)
            loaded = msgspec.structs.replace(loaded, folders=folders)
        return loaded


def _asking(ask: Callable[[str, Sequence[str]], Awaitable[str | None]]) -> Ask:
    async def asked(question: Question) -> str | None:
        return await ask(question.text, question.choices)

    return asked


def _endpoint_flags(model: str | Model, base_url: str | None, dialect: str | None) -> list[Flag]:
    """A one-off endpoint is a provider like any other, under a name of its own."""
    if not isinstance(model, str):
        if base_url or dialect:
            raise UsageError("base_url and dialect belong to a model that is given by name.")
        return []
    if base_url is None:
        if dialect:
            raise UsageError("dialect is for the endpoint of base_url.", remedy="Give base_url too.")
        return [Flag(path=("model",), value=model, flag="model=")]
    flags = [
        Flag(path=("model",), value=f"{ENDPOINT}/{model}", flag="model="),
        Flag(path=("providers", ENDPOINT, "base_url"), value=base_url, flag="base_url="),
    ]
    if dialect:
        flags.append(Flag(path=("providers", ENDPOINT, "dialect"), value=dialect, flag="dialect="))
    return flags


def _answer(outcome: TurnOutcome, conversation_id: ConversationId) -> Answer:
    return Answer(
        conversation_id=conversation_id,
        text=outcome.text,
        reason=outcome.reason,
        detail=outcome.detail,
        steps=outcome.steps,
        usage=outcome.usage,
        cost_usd=outcome.cost_usd,
        denials=outcome.denials,
    )
