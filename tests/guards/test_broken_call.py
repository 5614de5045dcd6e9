"""Where the provider says that it could not read a call, the model is asked to make it again: it is no answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import msgspec
import pytest

from turnwright.app.guards import unguarded
from turnwright.kernel.guards.guard_set import GuardSet
from turnwright.kernel.guards.registry import chosen
from turnwright.kernel.history import History
from turnwright.kernel.loop import Turn, TurnOutcome, run_turn
from turnwright.kernel.ports import Guards
from turnwright.providers.script import Call, Step
from turnwright.providers.scripted import ScriptedModel
from turnwright.schema.facts import GuardTripped
from turnwright.schema.guards import Completion
from turnwright.schema.guards import Guards as Settings
from turnwright.schema.messages import RuntimeMessage
from turnwright.schema.parts import Finish, Part
from turnwright.schema.prompt import Prompt
from turnwright.schema.routes import Route
from turnwright.testing.ports import MemoryRecord, ports_for


class Garbled(ScriptedModel):
    """Its first replies end as Gemini ends those in which it cannot make out a call."""

    def __init__(self, steps: Sequence[Step], garbled: int) -> None:
        super().__init__(steps)
        self.garbled = garbled

    async def attempt(self, route: Route, prompt: Prompt) -> AsyncGenerator[Sequence[Part], None]:
        garbled = len(self.prompts) < self.garbled
        async for parts in super().attempt(route, prompt):
            yield [broken(part) if garbled else part for part in parts]


def broken(part: Part) -> Part:
    if isinstance(part, Finish):
        return msgspec.structs.replace(part, raw="MALFORMED_FUNCTION_CALL", finish="other", is_broken_call=True)
    return part


def look(path: str = ".") -> str:
    """Look at something."""
    return f"seen {path}"


async def run(model: ScriptedModel, guards: Guards) -> tuple[TurnOutcome, MemoryRecord]:
    record = MemoryRecord()
    turn = Turn(conversation_id="c_1", turn_id="t_1", text="do it", history=History("c_1"))
    return await run_turn(turn, ports_for(model, look, guards=guards), record), record


def usual_guards() -> GuardSet:
    return GuardSet(chosen(Settings(), Completion()))


@pytest.mark.parametrize(("garbled", "reason"), [(1, "stop"), (2, "stop"), (3, "guard-stop")])
async def test_it_is_asked_for_again(garbled: int, reason: str) -> None:
    steps = [*[Step(text="I see.")] * garbled, Step(calls=[Call(name="look")]), Step(text="Seen.")]
    model = Garbled(steps if reason == "stop" else [*steps[:garbled], steps[-1]], garbled)
    outcome, record = await run(model, usual_guards())
    assert (outcome.reason, outcome.text) == (reason, "Seen.")
    trips = [(fact.guard, fact.verdict) for fact in record.facts if isinstance(fact, GuardTripped)]
    assert trips == [("announced", "ask")] * min(garbled, 2) + [("announced", "force_answer")] * (garbled > 2)
    asked = model.prompts[1].messages[-1]
    assert isinstance(asked, RuntimeMessage)
    assert asked.text.startswith("You began a tool call that could not be read")


async def test_without_the_guard_it_is_no_success() -> None:
    outcome, _ = await run(Garbled([Step(text="I see.")], 1), unguarded())
    assert (outcome.reason, outcome.text) == ("provider-error", "I see.")
