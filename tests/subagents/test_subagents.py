"""The `task` tool through the whole stack: journals, limits, tools, questions and cancellation of a tree (S3)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from minds import Call, Step, Tokens, asks, minded, results, sends

from turnwright.app.engine import Engine, open_engine
from turnwright.app.replaying import replayed
from turnwright.app.turns import first_turn, next_turn, opening
from turnwright.config.load import Loaded, load
from turnwright.kernel.loop import TurnOutcome
from turnwright.kernel.ports import Ask, Question
from turnwright.providers.scripted import ScriptedModel
from turnwright.schema.facts import (
    ApprovalAnswered,
    ConversationOpened,
    Errand,
    Recorded,
    SubagentEnded,
    SubagentStarted,
    ToolEnded,
    TurnEnded,
)
from turnwright.schema.ids import ConversationId
from turnwright.session.conversation import Conversation

LIST = Call(name="ls")
EVERYTHING = ("read", "write", "edit", "patch", "ls", "glob", "grep", "bash", "bash_output", "bash_kill", "todo")


class Place:
    """A journal and a workspace; conversations one after another."""

    def __init__(self, root: Path, engine: Engine) -> None:
        self.root = root
        self.engine = engine
        self.work = root / "work"

    async def run(self, model: ScriptedModel, task: str = "go", ask: Ask | None = None) -> TurnOutcome:
        given = {} if ask is None else {"ask": ask}
        async with (
            self.engine.session(self.work, model=model, **given) as session,  # type: ignore[arg-type]
            first_turn(session, task, opening(self.engine.loaded.settings, self.work, "given")) as running,
        ):
            return await running.unwatched()

    async def facts(self) -> dict[ConversationId, list[Recorded]]:
        """Of every conversation, oldest first."""
        listed = sorted(await self.engine.journal.conversations(), key=lambda each: (each.opened_at, each.id))
        return {each.id: list(await self.engine.journal.since(each.id)) for each in listed}

    async def all_replay(self) -> None:
        for name in await self.facts():
            again = await replayed(self.engine.journal, name)
            assert again.identical, again.divergence


@pytest.fixture
def settings() -> dict[str, str]:
    return {}


@pytest.fixture
async def place(tmp_path: Path, settings: dict[str, str]) -> AsyncIterator[Place]:
    (tmp_path / "work").mkdir()
    async with open_engine(loaded_in(tmp_path, settings)) as engine:
        yield Place(tmp_path, engine)


def loaded_in(root: Path, settings: dict[str, str]) -> Loaded:
    return load(root / "work", environ={"TURNWRIGHT_HOME": str(root / "home")}, assigned=settings)


def found(facts: Sequence[Recorded], kind: type) -> list:  # type: ignore[type-arg]
    return [each.fact for each in facts if isinstance(each.fact, kind)]


async def test_two_side_by_side_and_one_of_their_own(place: Place) -> None:
    model = minded(
        {
            "go": [asks(sends("look", title="looking", tools=["ls", "task"]), sends("write it")), Step(text="done")],
            "look": [asks(LIST, sends("look deeper")), Step(text="I looked")],
            "look deeper": [asks(LIST), Step(text="it is deep")],
            "write it": [asks(Call(name="write", arguments={"path": "a", "content": "b"})), Step(text="I wrote")],
        }
    )
    outcome = await place.run(model)
    assert (outcome.reason, outcome.text, outcome.steps) == ("stop", "done", 2)
    assert (place.work / "a").read_text() == "b"
    facts = await place.facts()
    root, *_ = facts
    errands = {
        opened.title: (opened.parent, opened.errand)
        for each in facts.values()
        for opened in found(each, ConversationOpened)
    }
    looking = next(name for name, each in facts.items() if found(each, ConversationOpened)[0].title == "looking")
    assert errands == {
        "": (None, None),
        "looking": (root, Errand(depth=1, tools=("ls", "task"))),
        "write it": (root, Errand(depth=1, tools=(*EVERYTHING, "ask_user", "task"))),
        "look deeper": (looking, Errand(depth=2, tools=("ls",))),
    }
    ends = {end.call_id: end for end in found(facts[root], SubagentEnded)}
    assert {(end.reason, end.text, end.steps) for end in ends.values()} == {
        ("stop", "I looked", 2),
        ("stop", "I wrote", 2),
    }
    told = {end.call_id: end.output for end in found(facts[root], ToolEnded)}
    assert told == {call_id: end.text for call_id, end in ends.items()}
    (whole,) = found(facts[root], TurnEnded)
    every = [end for name, each in facts.items() for end in found(each, TurnEnded)]
    below = found(facts[looking], SubagentEnded)[0].usage.input or 0
    own = [(end.usage.input or 0) for end in every]
    assert whole.usage.input == max(own) == outcome.usage.input
    assert sum(end.usage.input or 0 for end in ends.values()) < max(own)
    assert below > 0
    await place.all_replay()


async def test_a_subagent_that_ends_on_a_limit_is_an_error_with_what_it_has(place: Place) -> None:
    model = minded(
        {
            "go": [asks(sends("look", max_steps=2)), Step(text="done")],
            "look": [asks(LIST, text="first"), asks(LIST, text="second"), Step(text="this far I came")],
        }
    )
    assert (await place.run(model)).reason == "stop"
    (told,) = results(model.prompts[-1])
    assert told.startswith("Error: the subagent ended early (max-steps: 2 of 2 steps are taken) after 3 steps.")
    assert told.endswith("\n\nthis far I came")
    facts = await place.facts()
    (end,) = [end for each in facts.values() for end in found(each, SubagentEnded)]
    (tool,) = found(next(iter(facts.values())), ToolEnded)
    assert (end.reason, tool.outcome, tool.detail["reason"]) == ("max-steps", "failed", "max-steps")
    await place.all_replay()


async def test_a_budget_of_its_own_ends_it_alone(place: Place) -> None:
    used = Tokens(input=400, output=10)
    model = minded(
        {
            "go": [asks(sends("look", max_tokens=1_000), usage=used), Step(text="done", usage=used)],
            "look": [asks(LIST, text="I look", usage=used)],
        }
    )
    outcome = await place.run(model)
    facts = await place.facts()
    (end,) = [end for each in facts.values() for end in found(each, SubagentEnded)]
    assert (outcome.reason, end.reason, end.spent_tokens) == ("stop", "token-budget", 1_230)
    assert outcome.usage.input == 5 * 400
    assert results(model.prompts[-1])[0].startswith(
        "Error: the subagent ended early (token-budget: 1230 of 1000 tokens"
    )
    await place.all_replay()


@pytest.mark.parametrize(
    ("settings", "calls", "said"),
    [
        ({"subagents.per_conversation": "1"}, [sends("a"), sends("b")], "subagents.per_conversation is 1. Do the rest"),
        ({"subagents.depth": "1"}, [sends("deep")], "There is no tool named 'task'"),
        ({"subagents.depth": "0"}, [sends("a")], "There is no tool named 'task'"),
        ({}, [sends("a", tools=["rm"])], "You have no tool named rm. There are: read, write"),
        ({}, [sends("  ")], "The brief is empty."),
        ({}, [sends("a", max_tokens=0)], "Expected `int` >= 1"),
    ],
)
async def test_what_may_not_be_sent_is_said(place: Place, calls: list[Call], said: str) -> None:
    model = minded(
        {
            "go": [asks(*calls), Step(text="done")],
            "a": [Step(text="A")],
            "b": [Step(text="B")],
            "deep": [asks(sends("a")), Step(text="too deep")],
        }
    )
    assert (await place.run(model)).reason == "stop"
    everything = [told for prompt in model.prompts for told in results(prompt)]
    assert any(said in told for told in everything), everything
    await place.all_replay()


@pytest.mark.parametrize("settings", [{"subagents.at_once": "2", "loop.dispatch.max_concurrent": "0"}])
async def test_so_many_run_at_once_and_the_others_wait(place: Place) -> None:
    briefs = [f"number {number}" for number in range(6)]
    slow = [asks(Call(name="bash", arguments={"command": "sleep 0.1"})), Step(text="slept")]
    model = minded({"go": [asks(*map(sends, briefs)), Step(text="done")], **dict.fromkeys(briefs, slow)})
    assert (await place.run(model)).text == "done"
    root, *_ = (await place.facts()).values()
    running, most = 0, 0
    for each in root:
        running += isinstance(each.fact, SubagentStarted) - isinstance(each.fact, SubagentEnded)
        most = max(most, running)
    assert (most, running) == (2, 0)
    await place.all_replay()


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"loop.limits.step_total_s": "1.5", "loop.limits.step_idle_s": "1"}])
async def test_the_time_that_one_takes_is_not_its_senders_step(place: Place) -> None:
    wait = asks(Call(name="bash", arguments={"command": "sleep 0.8"}))
    model = minded({"go": [asks(sends("wait")), Step(text="done")], "wait": [wait, wait, wait, Step(text="waited")]})
    outcome = await place.run(model)
    assert (outcome.reason, outcome.text, results(model.prompts[-1])) == ("stop", "done", ["waited"])


async def test_its_questions_reach_whoever_answers_the_one_that_sent_it(place: Place) -> None:
    asked: list[tuple[str, str]] = []

    async def ask(question: Question) -> str | None:
        asked.append((question.conversation_id, question.text))
        return "blue"

    model = minded(
        {
            "go": [asks(sends("mid")), Step(text="done")],
            "mid": [asks(sends("paint", title="painting")), Step(text="painted")],
            "paint": [asks(Call(name="ask_user", arguments={"question": "Which colour?"})), Step(text="ok")],
        }
    )
    assert (await place.run(model, ask=ask)).reason == "stop"
    facts = await place.facts()
    root, *_ = facts
    assert asked == [(root, "[subagent “mid”] [subagent “painting”] Which colour?")]
    assert [len(found(each, ApprovalAnswered)) for each in facts.values()] == [1, 1, 1]
    assert "blue" in [told for prompt in model.prompts for told in results(prompt)]
    await place.all_replay()


async def test_a_denial_below_is_a_denial_above(place: Place) -> None:
    model = minded(
        {
            "go": [asks(sends("paint")), Step(text="done")],
            "paint": [asks(Call(name="ask_user", arguments={"question": "Which colour?"})), Step(text="grey then")],
        }
    )
    outcome = await place.run(model)
    assert (outcome.reason, outcome.denials) == ("needs-user", 1)
    assert results(model.prompts[-1])[0].endswith("\n\ngrey then")
    await place.all_replay()


async def test_stopping_the_one_that_sent_them_stops_the_whole_tree_within_a_second(place: Place) -> None:
    sleep = asks(Call(name="bash", arguments={"command": "echo on >> log; sleep 60"}), text="I sleep")
    model = minded(
        {
            "go": [asks(sends("mid"), sends("sleep")), Step(text="done")],
            "mid": [asks(sends("sleep")), Step(text="painted")],
            "sleep": [sleep, Step(text="slept")],
            "and now": [Step(text="now this")],
        }
    )
    async with (
        place.engine.session(place.work, model=model) as session,
        first_turn(session, "go", opening(place.engine.loaded.settings, place.work, "given")) as running,
    ):
        turn = asyncio.create_task(running.unwatched())
        while (place.work / "log").exists() is False or (place.work / "log").read_text().count("on") < 2:
            await asyncio.sleep(0.01)
        began = time.monotonic()
        running.stop()
        outcome = await turn
        took_s = time.monotonic() - began
        conversation: Conversation = running.conversation
    assert (outcome.reason, took_s < 1.0) == ("cancelled", True)
    facts = await place.facts()
    assert [found(each, TurnEnded)[-1].reason for each in facts.values()] == ["cancelled"] * 4
    assert sorted(end.reason for each in facts.values() for end in found(each, SubagentEnded)) == ["cancelled"] * 3
    await place.all_replay()

    # The conversation takes the next message at once.
    async with (
        place.engine.session(place.work, model=minded({"go": [Step(text="now this")]})) as session,
        next_turn(session, conversation.id, "and now") as running,
    ):
        assert (await running.unwatched()).text == "now this"
