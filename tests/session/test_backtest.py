"""A guard over a recorded conversation says what it said when the turn ran; another says what it would have said."""

from __future__ import annotations

from collections.abc import Sequence

from talking import World, begun, calling

from turnwright.kernel.ports import Block, ForceAnswer, Guards, Judgement, Warn
from turnwright.providers.script import Step, Tokens
from turnwright.schema.facts import Fact, ModelReplied, ToolEnded, Unknown
from turnwright.schema.messages import RuntimeMessage
from turnwright.session.backtest import Backtest, Saved, Trip, backtest


class Counting:
    """Warns at one tool result, forbids the call of one name, and forces an answer at a later result."""

    def __init__(self, warn_at: int, force_at: int, forbidden: str = "") -> None:
        self.warn_at, self.force_at, self.forbidden, self.results = warn_at, force_at, forbidden, 0
        self.seen: list[Fact] = []

    def watch(self) -> None:
        return None

    def recall(self, fact: Fact | Unknown) -> None:
        del fact

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        self.seen.append(fact)
        if isinstance(fact, ModelReplied):
            return [
                Block(guard="names", why=f"{call.name} is forbidden", call_id=call.id)
                for call in fact.message.calls
                if call.name == self.forbidden
            ]
        if not isinstance(fact, ToolEnded):
            return ()
        self.results += 1
        said = RuntimeMessage(code="count", text=f"{self.results} results")
        if self.results == self.force_at:
            return [ForceAnswer(guard="count", why=said.text, said=said)]
        return [Warn(guard="count", why=said.text, said=said)] if self.results == self.warn_at else ()


def look(path: str) -> str:
    """Look at something."""
    return "x" * 50_000 if path == "large" else path


def touch(path: str) -> str:
    """Another way to look."""
    return path


async def recorded(world: World, guards: Guards) -> str:
    steps = [
        calling("look", path="a"),
        calling("touch", path="b"),
        calling("look", path="large"),
        calling("look", path="c"),
        Step(text="done", usage=Tokens(input=100, output=10)),
    ]
    conversation = await begun(world.session(steps, look, touch, guards=lambda: guards))
    await conversation.say("look around")
    await conversation.close()
    return conversation.id


async def again(world: World, conversation_id: str, guards: Guards) -> Backtest:
    return await backtest(world.session([]).journal, conversation_id, guards)


async def test_the_same_guards_say_the_same_again() -> None:
    world = World()
    then, now = Counting(2, 99, "touch"), Counting(2, 99, "touch")
    found = await again(world, await recorded(world, then), now)
    assert [(trip.guard, trip.verdict, trip.why) for trip in found.trips] == [
        ("names", "block", "touch is forbidden"),
        ("count", "warn", "2 results"),
    ]
    assert (found.new, found.gone, found.saved) == ((), (), ())
    assert now.seen == then.seen, "payloads that were set apart are in their place again"


async def test_other_guards_say_where_they_would_have_ended_it_and_what_that_saves() -> None:
    world = World()
    conversation_id = await recorded(world, Counting(2, 99))
    found = await again(world, conversation_id, Counting(99, 3))
    facts = world.facts(conversation_id)
    third = [seq for seq, fact in enumerate(facts, 1) if isinstance(fact, ToolEnded)][2]
    turn_id = facts[-1].turn_id if isinstance(facts[-1], Fact) else None
    assert turn_id is not None
    forced = Trip(seq=third, guard="count", verdict="force_answer", why="3 results", turn_id=turn_id)
    assert found.trips == found.new == (forced,)
    assert [trip.why for trip in found.gone] == ["2 results"]
    [saved] = found.saved
    assert saved == Saved(turn_id=turn_id, after_seq=third, steps=2, tokens=saved.tokens, cost_usd=0.0)
    assert saved.tokens > 110
