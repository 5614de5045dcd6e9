from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import msgspec
import pytest

from turnwright.kernel.history import History
from turnwright.kernel.loop import Turn, run_turn
from turnwright.kernel.ports import Charge, Letter, Ports, Question, Ready, Refused, ToolOutcome, Unfit
from turnwright.providers.script import Call, Expect, Step
from turnwright.providers.scripted import ScriptedModel, ScriptMismatch
from turnwright.schema.errors import ToolFailure
from turnwright.schema.facts import Note, TurnEnded
from turnwright.schema.routes import Route
from turnwright.schema.tools import Delegation
from turnwright.testing.crash import Crash, CrashPlan, crashing
from turnwright.testing.ports import (
    Cancellation,
    FunctionTools,
    Heard,
    Letters,
    MemoryRecord,
    UnlimitedLedger,
    nobody_answers,
    ports_for,
)


class Context:
    turn_id = "t"
    step_id = "t#0"
    call_id = "c"

    def output(self, text: str, stream: Literal["stdout", "stderr"] = "stdout") -> None: ...

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None: ...

    async def delegate(self, wanted: Delegation) -> ToolOutcome:
        raise AssertionError("nobody is sent here")


def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


async def fails(context: Context) -> str:
    raise ToolFailure(f"no, {context.call_id}", output="so far")


def bug() -> str:
    raise ValueError("oops")


def rich() -> ToolOutcome:
    return ToolOutcome(output="x", outcome="timeout")


def test_functions_are_tools() -> None:
    tools = FunctionTools(add, fails, effects={"fails": "writes"})
    (spec, _) = tools.offered("build")
    assert (spec.name, spec.description, spec.effect) == ("add", "Add.", "reads")
    assert spec.parameters == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert [tool.name for tool in tools.offered("plan")] == ["add"]
    assert tools.offered("build") is tools.offered("build")
    assert tools.offered("plan") is tools.offered("plan")


@pytest.mark.parametrize(
    ("name", "arguments", "checked"),
    [
        ("add", '{"a":1}', Ready({"a": 1, "b": 2})),
        ("add", '{"a":', Unfit("The arguments of add do not fit: Input data was truncated.")),
        ("add", "{}", Unfit("The arguments of add do not fit: Object missing required field `a`.")),
        ("none", "{}", Unfit("There is no tool none.")),
    ],
)
def test_arguments_are_checked(name: str, arguments: str, checked: Ready | Unfit) -> None:
    assert FunctionTools(add).check(name, arguments) == checked


async def test_tools_run() -> None:
    tools = FunctionTools(add, fails, bug, rich)
    outcomes = [await tools.run("add", {"a": 1, "b": 2}, Context())]
    outcomes += [await tools.run(name, {}, Context()) for name in ("fails", "bug", "rich")]
    assert outcomes == [
        ToolOutcome(output="3"),
        ToolOutcome(output="so far\nno, c", outcome="failed"),
        ToolOutcome(output="ValueError: oops", outcome="failed"),
        ToolOutcome(output="x", outcome="timeout"),
    ]
    assert tools.ran == [("add", {"a": 1, "b": 2}), ("fails", {}), ("bug", {}), ("rich", {})]


async def test_the_small_ports() -> None:
    record = MemoryRecord()
    notes = [Note(code=str(n), text="") for n in range(3)]
    assert list(await record(*notes[:2])) == [1, 2]
    assert list(await record(notes[2])) == [3]
    assert (record.facts, record.batches) == (notes, [tuple(notes[:2]), (notes[2],)])

    letters = Letters(Letter(inbox_id="i", text="x"))
    assert (letters.take(), letters.take()) == ([Letter(inbox_id="i", text="x")], [])

    ledger = UnlimitedLedger()
    reservation = await ledger.reserve(Route(name="r", model="m"), 1, 2)
    assert not isinstance(reservation, Refused)
    reservation.settle(Charge(tokens=3))
    reservation.settle(Charge(tokens=3))
    assert (ledger.reserved, ledger.settled) == ([("r", 1, 2)], [Charge(tokens=3)])
    assert await nobody_answers(Question(approval_id="a", conversation_id="c", text="?")) is None


def test_cancellation() -> None:
    cancel = Cancellation()
    calls: list[str] = []
    cancel.subscribe(lambda: calls.append("a"))
    cancel.subscribe(lambda: calls.append("b"))()
    assert not cancel.requested
    cancel.request()
    cancel.request()
    cancel.subscribe(lambda: calls.append("late"))
    assert (cancel.requested, calls) == (True, ["a", "late"])


async def test_ports_around_a_model() -> None:
    heard = Heard()
    ports = ports_for(ScriptedModel([Step(text="x")]), add, emit=heard)
    assert isinstance(ports, Ports)
    assert ports.emit is heard
    await asyncio.wait_for(ports.clock.sleep(3600), 5)
    prompt = await ports.context.prompt(History("l"), ports.tools.offered("build"), "build")
    assert ports.context.segments(prompt) == {"system": "You are under test.", "tools": "add"}


def turn() -> Turn:
    return Turn(conversation_id="c_00000000000000000001", turn_id="turn_1", text="1 and 2?", history=History("l"))


async def test_a_turn_in_five_lines() -> None:
    record = MemoryRecord()
    model = ScriptedModel([Step(calls=[Call(name="add", arguments={"a": 1})]), Step(text="{{last_result}}")])
    outcome = await run_turn(turn(), ports_for(model, add), record)
    model.assert_complete()
    assert (outcome.reason, outcome.text) == ("stop", "3")


async def test_an_expectation_that_fails_ends_the_turn_and_the_test() -> None:
    record = MemoryRecord()
    model = ScriptedModel([Step(text="x", expect=Expect(tools=["none"]))])
    with pytest.raises(ScriptMismatch, match="exactly the tools"):
        await run_turn(turn(), ports_for(model, add), record)
    (ended,) = [fact for fact in record.facts if isinstance(fact, TurnEnded)]
    assert ended.reason == "internal-error"


async def test_dying_at_every_moment_of_a_turn() -> None:
    async def run(plan: CrashPlan) -> MemoryRecord:
        memory = MemoryRecord()
        model = ScriptedModel([Step(calls=[Call(name="add", arguments={"a": 1})]), Step(text="3", chunk="whole")])
        ports = ports_for(model, tools=crashing(FunctionTools(add), plan, "run"))
        ports = msgspec.structs.replace(ports, model=crashing(model, plan, "attempt"))
        with suppress(Crash):
            await run_turn(turn(), ports, crashing(memory, plan, "record"))
        return memory

    whole = CrashPlan()
    complete = (await run(whole)).facts
    assert "before run add" in whole.passed
    for at in range(len(whole.passed)):
        plan = CrashPlan(at=at)
        kept = (await run(plan)).facts
        assert plan.dead
        assert [type(fact) for fact in kept] == [type(fact) for fact in complete[: len(kept)]]
