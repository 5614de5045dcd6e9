"""Small, real implementations of the kernel's ports, so that a turn can be driven in a few lines:

record = MemoryRecord()
model = ScriptedModel([Step(calls=[Call(name="add", arguments={"a": 1, "b": 2})]), Step(text="3")])
outcome = await run_turn(turn, ports_for(model, add), record)
assert record.facts == [...]
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, get_type_hints

import msgspec

from turnwright.kernel.ports import (
    Asks,
    Charge,
    Conversation,
    Judgement,
    Letter,
    Model,
    Ports,
    Question,
    Ready,
    Refused,
    Reservation,
    Route,
    Standing,
    ToolContext,
    ToolOutcome,
    Unfit,
    Watch,
)
from turnwright.schema.errors import ToolFailure
from turnwright.schema.facts import Fact, Unknown
from turnwright.schema.ids import Seq
from turnwright.schema.limits import Limits
from turnwright.schema.live import LiveEvent
from turnwright.schema.prompt import Prompt, Section, ToolSpec
from turnwright.schema.verdicts import Effect
from turnwright.testing.clock import FakeClock
from turnwright.testing.ids import CountingIds


class MemoryRecord:
    """`Record`: keeps every fact, numbered from 1."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.batches: list[tuple[Fact, ...]] = []
        """What was made durable together."""

    async def __call__(self, *facts: Fact) -> Sequence[Seq]:
        first = len(self.facts) + 1
        self.facts += facts
        self.batches.append(facts)
        return range(first, first + len(facts))


class Heard:
    """`Emit`: keeps every live event."""

    def __init__(self) -> None:
        self.events: list[LiveEvent] = []

    def __call__(self, event: LiveEvent) -> None:
        self.events.append(event)


class NoGuards:
    def judge(self, fact: Fact) -> Sequence[Judgement]:
        del fact
        return ()

    def watch(self) -> Watch | None:
        return None

    def recall(self, fact: Fact | Unknown) -> None:
        del fact


class Letters:
    """`Inbox`: what the test puts in."""

    def __init__(self, *letters: Letter) -> None:
        self.waiting = list(letters)

    def take(self) -> Sequence[Letter]:
        taken, self.waiting = self.waiting, []
        return taken


class Cancellation:
    """`Cancel`: requested when the test says so, else never."""

    def __init__(self) -> None:
        self._requested = False
        self._callbacks: list[Callable[[], object]] = []

    @property
    def requested(self) -> bool:
        return self._requested

    def request(self) -> None:
        self._requested = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def subscribe(self, callback: Callable[[], object]) -> Callable[[], None]:
        if self._requested:
            callback()
            return lambda: None
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback) if callback in self._callbacks else None


class UnlimitedLedger:
    """`Ledger`: reserves anything and keeps what was settled."""

    def __init__(self) -> None:
        self.reserved: list[tuple[str, int, int]] = []
        self.settled: list[Charge] = []

    async def reserve(self, route: Route, input_tokens: int, output_tokens: int) -> Reservation | Refused:
        self.reserved.append((route.name, input_tokens, output_tokens))
        return _Settling(self.settled, input_tokens + output_tokens)

    def standings(self) -> Sequence[Standing]:
        return (Standing(sum(self.settled, Charge()), Limits()),)


class _Settling:
    cost_usd = None

    def __init__(self, settled: list[Charge], tokens: int) -> None:
        self.tokens = tokens
        self._settled: list[Charge] | None = settled

    def settle(self, charge: Charge) -> None:
        settled, self._settled = self._settled, None
        if settled is not None:
            settled.append(charge)


async def nobody_answers(question: Question) -> str | None:
    """`Ask`: a denial."""
    del question
    return None


class PlainContext:
    """`Context`: one section, and the history as it is."""

    def __init__(self, system: str = "You are under test.") -> None:
        self._system = (Section("role", system),)

    async def prompt(self, history: Conversation, tools: tuple[ToolSpec, ...], mode: str) -> Prompt:
        del mode
        return Prompt(lineage=history.lineage, system=self._system, messages=history.messages, tools=tools)

    def apart(self, tools: tuple[ToolSpec, ...], mode: str) -> str:
        del tools, mode
        return ""

    def segments(self, prompt: Prompt) -> dict[str, str]:
        return {"system": prompt.system[0].text, "tools": ",".join(tool.name for tool in prompt.tools)}

    def prefix_chars(self, prompt: Prompt) -> int:
        return sum(map(len, self.segments(prompt).values()))


class FunctionTools:
    """`Tools` from plain functions, sync or async; parameters are keyword arguments with types.

    A parameter called `context` gets the ToolContext. `ToolFailure` and any other exception is a failed outcome.
    In mode `plan` only what `reads` is offered.
    """

    def __init__(
        self,
        *functions: Callable[..., Any],
        effects: dict[str, Effect] | None = None,
        concurrent: frozenset[str] = frozenset(),
        needs_yes: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`needs_yes`: tools that run only once the user says so, and what they ask."""
        self._needs_yes = needs_yes
        self._functions = {function.__name__: function for function in functions}
        self._arguments = {name: _arguments_of(function) for name, function in self._functions.items()}
        self.ran: list[tuple[str, dict[str, Any]]] = []
        """Every execution that began, in order."""
        self._specs = tuple(
            ToolSpec(
                name=name,
                description=inspect.getdoc(function) or "",
                parameters=_schema_of(self._arguments[name]),
                effect=(effects or {}).get(name, "reads"),
                concurrent=name in concurrent,
            )
            for name, function in self._functions.items()
        )
        self._reading = tuple(spec for spec in self._specs if spec.effect == "reads")

    def offered(self, mode: str) -> tuple[ToolSpec, ...]:
        return self._reading if mode == "plan" else self._specs

    def check(self, name: str, arguments: str) -> Ready | Unfit | Asks:
        if name not in self._functions:
            return Unfit(f"There is no tool {name}.")
        try:
            fitting = msgspec.json.decode(arguments, type=self._arguments[name])
        except (msgspec.DecodeError, msgspec.ValidationError) as bad:
            return Unfit(f"The arguments of {name} do not fit: {bad}.")
        given = {field: getattr(fitting, field) for field in self._arguments[name].__struct_fields__}
        if name in self._needs_yes:
            return Asks(arguments=given, question=self._needs_yes[name])
        return Ready(given)

    async def run(self, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        function = self._functions[name]
        self.ran.append((name, arguments))
        extra = {"context": context} if "context" in inspect.signature(function).parameters else {}
        try:
            result = function(**arguments, **extra)
            if inspect.isawaitable(result):
                result = await result
        except ToolFailure as failure:
            return ToolOutcome(output="\n".join(filter(None, (failure.output, str(failure)))), outcome="failed")
        except Exception as error:  # noqa: BLE001 - as the real registry: a bug of a tool is an answer too
            return ToolOutcome(output=f"{type(error).__name__}: {error}", outcome="failed")
        return result if isinstance(result, ToolOutcome) else ToolOutcome(output=str(result))


def _arguments_of(function: Callable[..., Any]) -> type[msgspec.Struct]:
    hints = get_type_hints(function)
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "context":
            continue
        field = (parameter.name, hints.get(parameter.name, Any))
        fields.append(field if parameter.default is inspect.Parameter.empty else (*field, parameter.default))
    return msgspec.defstruct(f"{function.__name__}_arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _schema_of(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components([arguments])
    schema = dict(components[arguments.__name__])
    schema.pop("title", None)
    return schema


def ports_for(model: Model, *functions: Callable[..., Any], **replaced: Any) -> Ports:
    """Everything a turn needs around this model and these tools; `replaced` names other ports to use."""
    ports = Ports(
        model=model,
        tools=FunctionTools(*functions),
        guards=NoGuards(),
        context=PlainContext(),
        inbox=Letters(),
        clock=FakeClock(auto=True),
        ids=CountingIds(),
        cancel=Cancellation(),
        ledger=UnlimitedLedger(),
        ask=nobody_answers,
        emit=Heard(),
        jitter=lambda: 0.0,
    )
    return msgspec.structs.replace(ports, **replaced)
