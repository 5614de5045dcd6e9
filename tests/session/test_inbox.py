"""What the user says while a turn runs: admitted durably, delivered once, at its one place (S1, K11)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from talking import World, begun, calling, heard

from turnwright.providers.script import HttpError, Step
from turnwright.providers.scripted import ScriptedModel
from turnwright.schema.facts import InboxAdmitted, InboxWithdrawn, SteeringDelivered, TurnEnded, TurnStarted
from turnwright.schema.limits import Retry
from turnwright.schema.messages import ToolResults, UserMessage
from turnwright.session.conversation import Conversation
from turnwright.testing.crash import Crash, CrashPlan, crashing
from turnwright.testing.ports import FunctionTools

SPOKEN: list[Conversation] = []
"""The conversation that the tool `listen` speaks into, as its user would from another process."""


async def listen() -> str:
    """The user says four things meanwhile, and takes two of them back."""
    (conversation,) = SPOKEN
    await conversation.steer("left")
    dropped = await conversation.steer("no, right")
    await conversation.steer("then straight on")
    await conversation.queue("afterwards, tidy up")
    also_dropped = await conversation.queue("never mind")
    assert await conversation.withdraw(dropped) == "withdrawn"
    assert await conversation.withdraw(also_dropped) == "withdrawn"
    assert await conversation.withdraw(dropped) == "withdrawn", "twice is once"
    assert await conversation.withdraw("m_other") == "unknown"
    return "heard"


@pytest.fixture(autouse=True)
def unspoken() -> None:
    SPOKEN.clear()


STEPS = [calling("listen"), Step(text="straight on"), Step(text="tidy")]
EXPECTED = [("turn", "go"), ("steering", "left\n\nthen straight on"), ("turn", "afterwards, tidy up")]


async def test_steering_comes_between_steps_and_the_queue_opens_the_next_turn() -> None:
    world = World()
    session = world.session(STEPS, listen)
    conversation = await begun(session)
    SPOKEN.append(conversation)
    outcome = await conversation.say("go")
    assert (outcome.reason, outcome.text) == ("stop", "tidy")
    assert heard(world.facts()) == EXPECTED
    assert isinstance(session.model, ScriptedModel)
    assert [m.text for m in session.model.prompts[1].messages if isinstance(m, UserMessage)] == [
        "go",
        "left\n\nthen straight on",
    ]
    letters = [type(fact) for fact in world.facts() if isinstance(fact, InboxAdmitted | InboxWithdrawn)]
    assert Counter(letters) == {InboxAdmitted: 5, InboxWithdrawn: 2}


async def test_what_comes_after_the_last_step_opens_the_next_turn() -> None:
    world = World()

    def say(prompt: Any) -> Step:
        """The model is just giving its answer when the user steers."""
        if len(prompt.messages) == 1:
            SPOKEN.append(conversation)
            asyncio.get_running_loop().create_task(conversation.steer("one more thing"))
            return Step(text="done", delay_s=1)
        return Step(text="that too")

    conversation = await begun(world.session(ScriptedModel(say, clock=world.clock)))
    outcome = await conversation.say("go")
    assert outcome.text == "that too"
    assert heard(world.facts()) == [("turn", "go"), ("turn", "one more thing")]


async def stopping() -> str:
    """The user queues something, and stops the turn."""
    (conversation,) = SPOKEN
    await conversation.queue("later")
    conversation.stop()
    await asyncio.sleep(60)
    return "never"


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([calling("stopping")], "cancelled"),
        ([calling("listen"), Step(fault=HttpError(status=500))], "provider-error"),
    ],
)
async def test_a_turn_that_was_stopped_or_failed_opens_no_other(steps: Sequence[Step], reason: str) -> None:
    world = World()
    conversation = await begun(world.session(steps, listen, stopping, retry=Retry(attempts=1)))
    SPOKEN.append(conversation)
    outcome = await conversation.say("go")
    assert outcome.reason == reason
    assert conversation.waiting
    await conversation.close()
    taken_up = await Conversation.load(world.session([Step(text="ok")]), conversation.id)
    await taken_up.say("now this")
    assert heard(world.facts())[-1] == (
        "turn",
        ("later" if reason == "cancelled" else "afterwards, tidy up") + "\n\nnow this",
    )


def answer(prompt: Any) -> Step:
    """Listens once, whatever became of it, and answers everything else."""
    called = any(isinstance(message, ToolResults) for message in prompt.messages)
    return Step(text="done") if called else calling("listen")


async def died_at(moment: int | None) -> tuple[World, CrashPlan, str]:
    """A whole run that dies at that moment of the journal."""
    world, plan = World(), CrashPlan(moment)
    session = world.session(ScriptedModel(answer), listen, tools=FunctionTools(listen, effects={"listen": "runs"}))
    conversation = await begun(msgspec.structs.replace(session, journal=crashing(session.journal, plan, "append")))
    SPOKEN[:] = [conversation]
    try:
        await conversation.say("go")
    except Crash:
        world.die()
    return world, plan, conversation.id


async def test_nothing_is_lost_or_said_twice_wherever_it_dies() -> None:
    _, whole, _ = await died_at(None)
    assert len(whole.passed) > 25
    for moment in range(len(whole.passed)):
        world, _, conversation_id = await died_at(moment)
        if not world.facts(conversation_id):
            continue  # nothing was acknowledged
        taken_up = await Conversation.load(world.session(ScriptedModel(answer), listen), conversation_id)
        SPOKEN[:] = [taken_up]
        if taken_up.unfinished or taken_up.waiting:
            await taken_up.carry_on()
        facts = world.facts(conversation_id)
        assert isinstance(facts[-1], TurnEnded)
        assert_each_once(facts, whole.passed[moment])


def assert_each_once(facts: Sequence[object], died: str) -> None:
    admitted = [fact.inbox_id for fact in facts if isinstance(fact, InboxAdmitted)]
    withdrawn = {fact.inbox_id for fact in facts if isinstance(fact, InboxWithdrawn)}
    delivered = [
        inbox_id for fact in facts if isinstance(fact, SteeringDelivered | TurnStarted) for inbox_id in fact.inbox_ids
    ]
    assert delivered == [inbox_id for inbox_id in admitted if inbox_id not in withdrawn], died
