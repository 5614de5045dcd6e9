"""A conversation that was condensed, across processes: nothing is lost, nothing is done twice, and who opens it reads
only what the compaction left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest
from talking import World, begun

from turnwright.kernel.history import History
from turnwright.providers.script import Call, HttpError, Script, Step
from turnwright.providers.scripted import ScriptedModel
from turnwright.schema.errors import InputError
from turnwright.schema.facts import (
    AttemptEnded,
    ContextCompacted,
    InboxAdmitted,
    KnownFact,
    Note,
    TurnEnded,
    TurnStarted,
    Unknown,
)
from turnwright.schema.limits import Compaction
from turnwright.schema.messages import UserMessage
from turnwright.schema.routes import Price
from turnwright.session.conversation import Conversation
from turnwright.testing.crash import Crash, CrashPlan, crashing
from turnwright.testing.ports import FunctionTools, PlainContext

RULES = Compaction(keep_tokens=200, apart_steps=2)
WROTE: list[str] = []
SPOKEN: list[Conversation] = []


async def write(path: str, content: str) -> str:
    """Write a file. The user says something during the second one."""
    WROTE.append(path)
    if path == "f1":
        for conversation in SPOKEN:
            await conversation.queue("and then rest")
    return f"wrote {path}"


def script(count: int = 9, window: int | None = 3_000) -> Script:
    writes = [Call(name="write", arguments={"path": f"f{n}", "content": "x" * 1_500}) for n in range(count)]
    steps = [Step(calls=[call], chunk="whole") for call in writes]
    return Script(
        steps=[*steps, Step(text="done", repeat="forever")],
        follow="history",
        digest="I wrote files.",
        window=window,
        price=Price(input=2.0, output=8.0),
    )


def model(world: World, **more: int | None) -> ScriptedModel:
    return ScriptedModel(script(**more), clock=world.clock)  # type: ignore[arg-type]


async def died_at(moment: int | None) -> tuple[World, CrashPlan, str]:
    """A whole run, with a letter that waits all the while, that dies at that moment of the journal or the model."""
    WROTE.clear()
    SPOKEN.clear()
    world, plan = World(), CrashPlan(moment)
    tools = FunctionTools(write, effects={"write": "writes"})
    session = world.session(crashing(model(world), plan, "attempt"), tools=tools, compaction=RULES)
    conversation = await begun(msgspec.structs.replace(session, journal=crashing(session.journal, plan, "append")))
    SPOKEN.append(conversation)
    try:
        await conversation.say("go")
    except Crash:
        world.die()
    SPOKEN.clear()
    return world, plan, conversation.id


async def test_nothing_is_lost_or_done_twice_wherever_it_dies() -> None:
    """Also in the middle of a compaction: in its own attempt, before and after it is on record."""
    _, whole, _ = await died_at(None)
    near = [n for n, name in enumerate(whole.passed) if "context.compacted" in name]
    assert near
    for moment in sorted({*near, *(n - 4 for n in near), *range(4, len(whole.passed), 5)}):
        world, _, conversation_id = await died_at(moment)
        if not world.facts(conversation_id):
            continue
        tools = FunctionTools(write, effects={"write": "writes"})
        taken_up = await Conversation.load(world.session(model(world), tools=tools, compaction=RULES), conversation_id)
        if taken_up.unfinished or taken_up.waiting:
            await taken_up.carry_on()
        died = whole.passed[moment]
        facts = world.facts(conversation_id)
        assert isinstance(facts[-1], TurnEnded) and facts[-1].reason == "stop", died
        assert max(Counter(WROTE).values()) == 1, died
        said = sum(isinstance(fact, TurnStarted) and "and then rest" in fact.text for fact in facts)
        assert said == sum(isinstance(fact, InboxAdmitted) for fact in facts), died
        assert_folds_agree(facts, taken_up.history)


def assert_folds_agree(facts: Sequence[KnownFact | Unknown], live: History) -> None:
    """Read whole, or from where the last compaction tells to: the same."""
    compacted = [fact for fact in facts if isinstance(fact, ContextCompacted)]
    for start in {0, *(fact.through_seq for fact in compacted[-1:])}:
        history = History(live.lineage.partition("~")[0])
        for fact in facts[start:]:
            history.apply(fact)
        assert history.messages == live.messages
        assert not history.rebuilt_differently


async def test_who_opens_it_reads_only_what_was_left_and_knows_all_that_matters() -> None:
    """In the middle of the turn whose beginning was condensed, with a letter that came before."""
    _, whole, _ = await died_at(None)
    at = max(n for n, name in enumerate(whole.passed) if "context.compacted" in name)
    world, _, conversation_id = await died_at(at + 8)
    facts = world.facts(conversation_id)
    (compacted,) = [fact for fact in facts if isinstance(fact, ContextCompacted)]
    session = world.session(model(world), write, compaction=RULES)
    opening = await session.journal.opening(conversation_id)
    assert len(opening) < len(facts) / 2
    taken_up = await Conversation.load(session, conversation_id)
    assert taken_up.waiting
    assert taken_up.unfinished is not None and compacted.turn is not None
    left = taken_up.unfinished
    assert (left.turn_id, left.tally.mode) == (compacted.turn_id, "build")
    metered = [fact for fact in facts if isinstance(fact, AttemptEnded) and fact.purpose == "turn" and fact.usage]
    assert left.tally.usage.input == sum(fact.usage.input or 0 for fact in metered if fact.usage)
    assert taken_up.history.messages[0] == UserMessage(text="go")


async def test_on_request_between_two_turns() -> None:
    world = World()
    session = world.session(model(world, window=None), write, compaction=RULES)
    conversation = await begun(session)
    await conversation.say("go")
    made = await conversation.compact()
    assert (made.why, made.digest, made.turn_id, made.turn) == ("asked", "I wrote files.", None, None)
    assert made.tokens_before is not None and made.tokens_after is not None
    assert made.tokens_after < made.tokens_before / 2
    await conversation.close()
    again = await Conversation.load(world.session([Step(text="yes")], write), conversation.id)
    assert again.last_reason == "stop"
    assert (await again.say("still there?")).text == "yes"
    assert_folds_agree(world.facts(), again.history)


async def test_on_request_it_says_why_not() -> None:
    world = World()
    conversation = await begun(world.session([Step(text="hello")], compaction=RULES))
    await conversation.say("go")
    with pytest.raises(InputError, match="nothing but the newest part is left"):
        await conversation.compact()
    failing = Script(steps=[*script().steps[:9], Step(text="done"), Step(fault=HttpError(status=400, message="no"))])
    other = await begun(world.session(ScriptedModel(failing, clock=world.clock), write, compaction=RULES))
    await other.say("go")
    with pytest.raises(InputError, match="no"):
        await other.compact()


async def test_a_resume_says_what_a_changed_prompt_costs_before_it_goes_on() -> None:
    """Which segment changed, how many tokens are bought again, and for how much (R6)."""
    world = World()
    conversation = await begun(world.session(model(world, count=3, window=None), write))
    await conversation.say("go")
    await conversation.close()
    context = PlainContext("You are under another test.")
    changed = await Conversation.load(
        world.session(model(world, count=3, window=None), write, context=context), conversation.id
    )
    estimate = changed.history.estimate("scripted")
    await changed.say("more")
    await changed.say("and more")
    facts = world.facts()
    (note,) = [fact for fact in facts if isinstance(fact, Note) and fact.code == "prefix-changed"]
    assert note.data["changed"] == "system"
    tokens = note.data["tokens"]
    assert isinstance(tokens, int) and tokens >= estimate > 1_000
    assert note.data["cost_usd"] == round(tokens * 2.0 / 1_000_000, 6)
    assert f"about {tokens} tokens are bought again, for up to $" in note.text
    kinds = [type(fact).__name__ for fact in facts[facts.index(note) :]]
    assert kinds[:3] == ["Note", "StepStarted", "AttemptStarted"]


async def test_a_resume_with_the_same_prompt_says_nothing() -> None:
    world = World()
    conversation = await begun(world.session(model(world, count=3, window=None), write))
    await conversation.say("go")
    await conversation.close()
    same = await Conversation.load(world.session(model(world, count=3, window=None), write), conversation.id)
    await same.say("more")
    assert [fact for fact in world.facts() if isinstance(fact, Note)] == []
