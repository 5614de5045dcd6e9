"""Run one turn with scripted replies, and say what it recorded in one line per fact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from turnwright.kernel.history import History
from turnwright.kernel.loop import Turn, TurnOutcome, run_turn
from turnwright.providers.script import Call, Script, Step
from turnwright.providers.scripted import ScriptedModel
from turnwright.schema.facts import (
    AttemptEnded,
    Fact,
    GuardTripped,
    ModelReplied,
    Note,
    SteeringDelivered,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from turnwright.session.budget import Account
from turnwright.testing.clock import FakeClock
from turnwright.testing.ports import FunctionTools, MemoryRecord, ports_for


def look(path: str = ".") -> str:
    """Look at something."""
    return f"seen {path}"


def calling(name: str = "look", count: int = 1, **arguments: Any) -> Step:
    return Step(calls=[Call(name=name, arguments=arguments) for _ in range(count)])


def turn_of(text: str = "do it", **fields: Any) -> Turn:
    fields.setdefault("history", History("c_1"))
    return Turn(conversation_id="c_1", turn_id="t_1", text=text, **fields)


class Driven:
    """What became of a turn."""

    def __init__(self, outcome: TurnOutcome | None, record: MemoryRecord, model: ScriptedModel, turn: Turn) -> None:
        self.outcome = outcome
        self.facts: list[Fact] = record.facts
        self.batches = record.batches
        self.model = model
        self.history = turn.history

    @property
    def story(self) -> list[str]:
        return [told(fact) for fact in self.facts]


async def drive(
    steps: Sequence[Step] | Script,
    *tools: Callable[..., Any],
    turn: Turn | None = None,
    effects: dict[str, Any] | None = None,
    concurrent: frozenset[str] = frozenset(),
    **replaced: Any,
) -> Driven:
    clock = replaced.setdefault("clock", FakeClock(auto=True))
    record, model = MemoryRecord(), ScriptedModel(steps, clock=clock)
    toolset = FunctionTools(*(tools or (look,)), effects=effects, concurrent=concurrent)
    turn = turn or turn_of()
    replaced.setdefault("ledger", Account(turn.limits))
    outcome = await run_turn(turn, ports_for(model, **{"tools": toolset, **replaced}), record)
    return Driven(outcome, record, model, turn)


def resumed_history(facts: Sequence[Fact]) -> History:
    """What another process would fold."""
    history = History("c_1")
    for fact in facts:
        history.apply(fact)
    return history


def told(fact: Fact) -> str:
    kind = str(fact.__struct_config__.tag)
    match fact:
        case AttemptEnded():
            aside = "" if fact.purpose == "turn" else f" ({fact.purpose})"
            return f"{kind} {fact.attempt} {fact.verdict}{aside}"
        case ModelReplied():
            return f"{kind} {fact.message.text!r} {[call.name for call in fact.message.calls]}"
        case ToolStarted():
            return f"{kind} {fact.name}"
        case ToolEnded():
            return f"{kind} {fact.name} {fact.outcome}"
        case TurnEnded():
            return f"{kind} {fact.reason}"
        case Note():
            return f"{kind} {fact.code}"
        case GuardTripped():
            return f"{kind} {fact.guard} {fact.verdict}"
        case SteeringDelivered():
            return f"{kind} {fact.text!r}"
        case _:
            return kind
