"""What was recorded is run again by the same loop, and is the same; where it is not, the first difference is named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from talking import World, begun, calling

from turnwright.journal.memory import MemoryJournal
from turnwright.providers.script import Broken, Call, HttpError, Step
from turnwright.providers.scripted import ScriptedModel
from turnwright.schema.facts import Fact, ModelReplied, Recorded, ToolStarted, TurnEnded
from turnwright.schema.limits import Dispatch, Limits, Retry
from turnwright.schema.prompt import Prompt
from turnwright.session.conversation import Conversation
from turnwright.session.recorder import with_payload
from turnwright.session.replay.run import Replay, replay


def look(path: str) -> str:
    """Look at something."""
    return "x" * 50_000 if path == "large" else f"here is {path}"


def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


async def asking(question: str, context: Any) -> str:
    """Put a question."""
    answer = await context.ask(question, ("yes", "no"))
    return f"the user said {answer}"


async def facts_of(world: World, conversation_id: str) -> list[Recorded]:
    journal = world.session([]).journal
    return [
        msgspec.structs.replace(each, fact=await with_payload(each.fact, journal))
        for each in await journal.since(conversation_id)
    ]


async def ran(world: World, steps: Sequence[Step], *tools: Callable[..., Any], **replaced: Any) -> Conversation:
    conversation = await begun(world.session(steps, *tools, **replaced))
    await conversation.say("do it")
    await conversation.close()
    return conversation


async def identical(world: World, conversation_id: str) -> Replay:
    again = await replay(await facts_of(world, conversation_id))
    assert again.divergence is None, again.divergence
    return again


async def test_a_plain_run() -> None:
    world = World()
    steps = [calling("look", path="a"), calling("look", path="large"), Step(text="done", reasoning="hm")]
    conversation = await ran(world, steps, look)
    again = await identical(world, conversation.id)
    assert (again.turns, again.steps, again.from_parts, again.facts) == (1, 3, 3, again.replayed + 1)


BUSY = Step(
    text="all at once",
    calls=[
        Call(name="look", arguments={"path": "a"}),
        Call(name="look", arguments={"path": "a"}),
        Call(name="look", arguments={"path": "b"}),
        Call(name="fail", arguments={"why": "c"}),
        Call(name="fail", arguments={"wrong": "d"}),
        Call(name="nothing", arguments={}),
        Call(name="look", arguments={"path": "e"}),
        Call(name="look", arguments={"path": "f"}),
        Call(name="look", arguments={"path": "g"}),
        Call(name="look", arguments={"path": "h"}),
    ],
)


@pytest.mark.parametrize("width", [0, 1, 2, 4])
@pytest.mark.parametrize("eager", [False, True])
async def test_parallel_failing_and_refused_calls(width: int, eager: bool) -> None:
    world = World()
    tools = {"effects": {"fail": "runs"}, "concurrent": frozenset()}
    from turnwright.testing.ports import FunctionTools

    conversation = await ran(
        world,
        [BUSY, calling("fail", why="again"), Step(text="done")],
        tools=FunctionTools(look, fail, **tools),  # type: ignore[arg-type]
        dispatch=Dispatch(max_concurrent=width, eager=eager),
    )
    assert (await identical(world, conversation.id)).steps == 3


@pytest.mark.parametrize(
    "faulty",
    [
        [HttpError(status=503), None],
        [HttpError(status=503)] * 3,
        [HttpError(status=401)],
        [HttpError(status=429, retry_after_s=3), HttpError(status=500), None],
        [Broken(after=0), None],
        [Broken(after=2)],
    ],
)
async def test_faulty_providers(faulty: list[Any]) -> None:
    world = World()
    steps = [Step(text="a long enough answer to be cut", fault=fault) for fault in faulty]
    conversation = await ran(world, [calling("look", path="a"), *steps], look)
    await identical(world, conversation.id)


async def test_a_limit_of_steps_asks_for_a_summary() -> None:
    world = World()
    steps = [calling("look", path=str(n)) for n in range(3)]
    conversation = await ran(world, [*steps, Step(text="that is all")], look, limits=Limits(max_steps=3))
    assert conversation.last_reason == "max-steps"
    await identical(world, conversation.id)


@pytest.mark.parametrize(
    "limits", [Limits(step_total_s=5, step_idle_s=2), Limits(step_idle_s=2), Limits(turn_wall_s=700, step_total_s=None)]
)
async def test_time_limits(limits: Limits) -> None:
    world = World()
    slow = [calling("look", path="a"), Step(text="never", delay_s=10_000)]
    conversation = await ran(world, slow, look, limits=limits)
    assert conversation.last_reason in ("idle-timeout", "step-timeout", "wall-timeout")
    await identical(world, conversation.id)


async def test_cancelled_while_tools_run() -> None:
    world = World()
    box: list[Conversation] = []

    async def stopping(what: str, context: Any) -> str:
        """Ask for the end, and wait for it."""
        context.output("half of it")
        box[0].stop()
        await asyncio.Event().wait()
        return what

    steps = [
        calling("look", path="a"),
        Step(calls=[Call(name="look", arguments={"path": "b"}), *calling("stopping", what="c").calls]),
    ]
    box.append(await begun(world.session(steps, look, stopping)))
    await box[0].say("do it")
    await box[0].close()
    assert box[0].last_reason == "cancelled"
    await identical(world, box[0].id)


@pytest.mark.parametrize("at", [0, 1])
async def test_cancelled_while_the_model_speaks(at: int) -> None:
    world = World()
    box: list[Conversation] = []

    def says(prompt: Prompt) -> Step:
        if len(prompt.messages) // 2 < at:
            return calling("look", path="a")
        box[0].stop()
        return Step(text="never", delay_s=10_000)

    box.append(await begun(world.session(ScriptedModel(says, clock=world.clock), look)))
    await box[0].say("do it")
    await box[0].close()
    assert box[0].last_reason == "cancelled"
    await identical(world, box[0].id)


async def test_cancelled_before_it_began() -> None:
    world = World()
    conversation = await begun(world.session([Step(text="never")]))
    conversation.stop()
    await conversation.say("do it")
    await conversation.close()
    await identical(world, conversation.id)


async def test_a_question_and_its_answer() -> None:
    world = World()
    answers = iter(["yes", None])

    async def ask(question: object) -> str | None:
        del question
        return next(answers)

    steps = [calling("asking", question="May I?"), calling("asking", question="Again?"), Step(text="done")]
    conversation = await ran(world, steps, asking, ask=ask)
    await identical(world, conversation.id)


async def test_steered_and_queued() -> None:
    world = World()
    box: list[Conversation] = []

    async def steered(what: str) -> str:
        """Steer from within."""
        await box[0].steer(f"rather {what}")
        await box[0].steer("and quickly")
        await box[0].queue("later")
        await box[0].withdraw(await box[0].steer("no"))
        return what

    steps = [calling("steered", what="a"), Step(text="done"), Step(text="done later")]
    box.append(await begun(world.session(steps, steered)))
    await box[0].say("do it")
    await box[0].close()
    assert (await identical(world, box[0].id)).turns == 2


async def test_several_turns_and_an_early_end_that_is_carried_on() -> None:
    world = World()
    steps = [calling("look", path="a"), Step(fault=HttpError(status=401)), Step(text="done"), Step(text="more")]
    conversation = await begun(world.session(steps, look, retry=Retry(attempts=1)))
    await conversation.say("do it")
    await conversation.carry_on()
    await conversation.say("and more")
    await conversation.close()
    assert (await identical(world, conversation.id)).turns == 3


@pytest.mark.parametrize("commit", range(14))
async def test_a_process_that_died_anywhere(commit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world, ends = World(), []
    append = MemoryJournal.append

    async def noting(self: MemoryJournal, lease: Any, *rest: Any) -> Sequence[int]:
        seqs = await append(self, lease, *rest)
        ends.append(seqs[-1])
        return seqs

    monkeypatch.setattr(MemoryJournal, "append", noting)
    steps = [calling("look", path="a"), BUSY, calling("look", path="z"), Step(text="done")]
    conversation = await ran(world, steps, look, fail)
    kept = world.memory.conversations[conversation.id].facts[: ends[min(commit, len(ends) - 2)]]
    world.memory.conversations[conversation.id].facts[:] = kept
    world.die()
    later = await Conversation.load(world.session(steps, look, fail), conversation.id)
    await later.carry_on()
    await later.close()
    await identical(world, conversation.id)


async def test_a_changed_reply_is_found() -> None:
    world = World()
    steps = [calling("look", path="a"), Step(text="all is well")]
    conversation = await ran(world, steps, look)
    facts = await facts_of(world, conversation.id)
    replies = [place for place, each in enumerate(facts) if isinstance(each.fact, ModelReplied)]
    table: list[tuple[int, Callable[[Any], Fact], type[Fact], str]] = [
        (replies[0], lambda fact: _call(fact, '{"path": "b"}'), ToolStarted, "arguments"),
        (replies[1], lambda fact: _text(fact, "all is bell"), TurnEnded, "text"),
    ]
    for place, change, kind, field in table:
        changed = [*facts]
        changed[place] = msgspec.structs.replace(facts[place], fact=change(facts[place].fact))
        found = (await replay(changed)).divergence
        assert found is not None
        first = next(each.seq for each in facts[place:] if isinstance(each.fact, kind))
        assert (found.seq, found.field) == (first, field)


def _text(fact: Any, text: str) -> Fact:
    return msgspec.structs.replace(fact, message=msgspec.structs.replace(fact.message, text=text))  # type: ignore[no-any-return]


def _call(fact: Any, arguments: str) -> Fact:
    [call] = fact.message.calls
    call = msgspec.structs.replace(call, arguments=arguments)
    return msgspec.structs.replace(fact, message=msgspec.structs.replace(fact.message, calls=(call,)))  # type: ignore[no-any-return]
