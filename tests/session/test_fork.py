"""A conversation cut anywhere can be gone on with, and its parent does not know."""

from __future__ import annotations

import pytest
from talking import World, begun, calling
from test_replay import BUSY, fail, identical, look

from turnwright.providers.script import Step
from turnwright.schema.facts import ConversationOpened, TurnEnded
from turnwright.schema.ids import Prefix
from turnwright.session.conversation import FORKED, Conversation
from turnwright.views.cut import consistent_cut, turn_open_at

STEPS = [calling("look", path="a"), BUSY, Step(text="first done"), calling("look", path="z"), Step(text="done")]
CHILD = "c_000000000000000child"


async def parent(world: World) -> str:
    conversation = await begun(world.session(STEPS, look, fail))
    await conversation.say("one")
    await conversation.say("two")
    await conversation.close()
    return conversation.id


async def forked(world: World, of: str, at: int) -> None:
    journal = world.session([]).journal
    lease = await journal.acquire(CHILD, create=True, prefix=Prefix(of, at))
    opened = ConversationOpened(workspace="w", model="scripted", turnwright="test", parent=of, forked_at=at)
    await journal.append(lease, [(world.clock.wall_ms(), opened)])
    await lease.release()


@pytest.mark.parametrize("say", [False, True])
async def test_at_every_fact(say: bool) -> None:
    world = World()
    first = await parent(world)
    before = list(world.memory.conversations[first].facts)
    cuts = set()
    for seq in range(1, len(before) + 1):
        at = consistent_cut(before, seq)
        assert at <= seq
        cuts.add(at)
    assert len(cuts) == 10, "two ends, and a few places before and between steps"
    for at in sorted(cuts):
        world.memory.conversations.pop(CHILD, None)
        await forked(world, first, at)
        later = await Conversation.load(world.session([Step(text="another way")]), CHILD)
        assert (later.unfinished is not None) == turn_open_at(before, at)
        if say:
            await later.say("rather this")
        elif later.unfinished is not None:
            await later.carry_on()
        await later.close()
        facts = world.memory.conversations[CHILD].facts
        assert [each.body for each in facts[:at]] == [each.body for each in before[:at]]
        buried = [each.fact.detail for each in facts[at:] if isinstance(each.fact, TurnEnded) and each.fact.detail]
        assert buried == ([FORKED] if say and turn_open_at(before, at) else [])
        await identical(world, CHILD)
    assert world.memory.conversations[first].facts == before
