"""Questions of a turn: a tool's own, and those about calls that may not run without a yes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from talking import World, begun, calling

from turnwright.kernel.loop import TurnOutcome
from turnwright.kernel.ports import Question, ToolContext
from turnwright.providers.script import Call, Step
from turnwright.schema.facts import ApprovalAnswered, ApprovalAsked, KnownFact, ToolEnded, ToolStarted, Unknown
from turnwright.session.conversation import Conversation
from turnwright.testing.ports import FunctionTools


def change(path: str) -> str:
    """Change something."""
    return f"changed {path}"


async def ask(context: ToolContext) -> str:
    """Ask two things."""
    return f"{await context.ask('First?')} and {await context.ask('Second?')}"


def story(facts: list[KnownFact | Unknown]) -> list[str]:
    told = []
    for fact in facts:
        match fact:
            case ApprovalAsked():
                told.append(f"asked {fact.tool} {fact.question}")
            case ApprovalAnswered():
                told.append(f"answered {fact.answer!r} by {fact.by}")
            case ToolStarted():
                told.append(f"started {fact.name}")
            case ToolEnded():
                told.append(f"ended {fact.name} {fact.outcome}: {fact.output}")
            case _:
                pass
    return told


def saying(*answers: str | None) -> Callable[[Question], Awaitable[str | None]]:
    left = list(answers)

    async def answer(question: Question) -> str | None:
        del question
        return left.pop(0)

    return answer


ANSWERS: list[tuple[str | None, list[str], str]] = [
    ("yes", ["answered 'yes' by user", "started change", "ended change ok: changed a"], "stop"),
    ("no", ["answered 'no' by user", "ended change refused: not executed: the user said: no"], "stop"),
    (
        "whatever",
        ["answered 'whatever' by user", "ended change refused: not executed: the user said: whatever"],
        "stop",
    ),
    (
        None,
        [
            "answered '' by nobody",
            "ended change refused: not executed: nobody could answer whether it may run, which is a no",
        ],
        "needs-user",
    ),
]


@pytest.mark.parametrize(("answer", "becomes", "reason"), ANSWERS)
async def test_a_call_that_needs_a_yes_waits_for_it(answer: str | None, becomes: list[str], reason: str) -> None:
    world = World()
    tools = FunctionTools(change, effects={"change": "writes"}, needs_yes={"change": "May it?"})
    session = world.session([calling("change", path="a"), Step(text="ok")], tools=tools, ask=saying(answer))
    outcome = await (await begun(session)).say("go")
    assert story(world.facts()) == ["asked change May it?", *becomes]
    assert (tools.ran, outcome.reason) == ([("change", {"path": "a"})] if answer == "yes" else [], reason)


async def test_each_call_is_asked_about_in_its_turn() -> None:
    """After what stood before it has run, so that the user can see what came of that."""
    world = World()
    calls = Step(calls=[Call(name="change", arguments={"path": path}) for path in "ab"])
    tools = FunctionTools(change, effects={"change": "writes"}, needs_yes={"change": "May it?"})
    await (await begun(world.session([calls, Step(text="ok")], tools=tools, ask=saying("yes", "no")))).say("go")
    assert story(world.facts()) == [
        "asked change May it?",
        "answered 'yes' by user",
        "started change",
        "ended change ok: changed a",
        "asked change May it?",
        "answered 'no' by user",
        "ended change refused: not executed: the user said: no",
    ]


async def died_while_asking(world: World, session_ask: Callable[[Question], Awaitable[str | None]]) -> str:
    conversation = await begun(world.session([calling("ask"), Step(text="ok")], ask, ask=session_ask, **ASKS))
    task = asyncio.create_task(conversation.say("go"))
    while "asked  Second?" not in story(world.facts()):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return conversation.id


ASKS = {"tools": FunctionTools(ask, effects={"ask": "asks"})}


async def test_an_answer_that_is_on_record_is_not_asked_for_again() -> None:
    """The tool that asked is made anew after a crash; the user hears only what was not answered."""
    world = World()
    silent = asyncio.get_running_loop().create_future()

    async def once(question: Question) -> str | None:
        return "one" if question.text == "First?" else await silent

    conversation_id = await died_while_asking(world, once)
    cut = world.memory.conversations[conversation_id].facts
    while not isinstance(cut[-1].fact, ApprovalAsked):
        cut.pop()  # what a killed process would not have written
    world.die()

    session = world.session([Step(text="ok")], ask=saying("two"), **ASKS)
    outcome: TurnOutcome = await (await Conversation.load(session, conversation_id)).carry_on()
    assert story(world.facts()) == [
        "started ask",
        "asked  First?",
        "answered 'one' by user",
        "asked  Second?",
        "started ask",
        "asked  Second?",
        "answered 'two' by user",
        "ended ask ok: one and two",
    ]
    assert outcome.reason == "stop"
