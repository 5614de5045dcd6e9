"""What a running tool may use of its surroundings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from turnwright.schema.ids import CallId, StepId, TurnId
from turnwright.schema.tools import Delegation, ToolOutcome

if TYPE_CHECKING:
    from turnwright.machine.port import Machine

State = TypeVar("State")


class CallContext(Protocol):
    """What the turn loop hands over with each call; `kernel.ports.ToolContext` has this shape."""

    turn_id: TurnId
    step_id: StepId
    call_id: CallId

    def output(self, text: str, stream: Literal["stdout", "stderr"] = "stdout") -> None: ...

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None: ...

    async def delegate(self, wanted: Delegation) -> ToolOutcome: ...


@dataclass(slots=True)
class FilesRead:
    """What the model has seen of the workspace: real path to the SHA-256 of the bytes it saw."""

    seen: dict[str, str] = field(default_factory=dict)


class States:
    """One object of each kind per conversation: the plan, the files read, the processes that live on."""

    def __init__(self) -> None:
        self._kept: dict[type[Any], Any] = {}

    def get(self, kind: type[State]) -> State:
        if kind not in self._kept:
            self._kept[kind] = kind()
        kept: State = self._kept[kind]
        return kept

    def put(self, state: object) -> None:
        self._kept[type(state)] = state

    async def close(self) -> None:
        """Let go of what the tools hold: whatever has an async `close` is closed."""
        for kept in self._kept.values():
            close = getattr(kept, "close", None)
            if close is not None:
                await close()
        self._kept.clear()


@dataclass(slots=True, frozen=True)
class ToolContext:
    """Handed to a tool whose first parameter is annotated with this type."""

    call: CallContext
    states: States
    machine_or_none: Machine | None = None

    @property
    def machine(self) -> Machine:
        """Where commands and files live."""
        if self.machine_or_none is None:
            raise AssertionError("this toolbox was made without a machine, and a tool asked for it")
        return self.machine_or_none

    @property
    def call_id(self) -> CallId:
        return self.call.call_id

    @property
    def step_id(self) -> StepId:
        return self.call.step_id

    @property
    def turn_id(self) -> TurnId:
        return self.call.turn_id

    @property
    def files(self) -> FilesRead:
        return self.states.get(FilesRead)

    def state(self, kind: type[State]) -> State:
        """This conversation's one object of that kind, made on first use."""
        return self.states.get(kind)

    def output(self, text: str, stream: Literal["stdout", "stderr"] = "stdout") -> None:
        """Show something while the tool runs."""
        self.call.output(text, stream)

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        """Ask the user. None when nobody can answer, which is a denial."""
        return await self.call.ask(question, choices)

    async def delegate(self, wanted: Delegation) -> ToolOutcome:
        """Have a subagent do it."""
        return await self.call.delegate(wanted)


class FromThread:
    """A call's surroundings for a sync tool: output crosses back to the loop that owns the faces."""

    def __init__(self, call: CallContext, loop: asyncio.AbstractEventLoop) -> None:
        self.turn_id, self.step_id, self.call_id = call.turn_id, call.step_id, call.call_id
        self._call, self._loop = call, loop

    def output(self, text: str, stream: Literal["stdout", "stderr"] = "stdout") -> None:
        self._loop.call_soon_threadsafe(self._call.output, text, stream)

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        raise TypeError("a sync tool cannot ask the user; make it an async function")

    async def delegate(self, wanted: Delegation) -> ToolOutcome:
        raise TypeError("a sync tool cannot send a subagent; make it an async function")
