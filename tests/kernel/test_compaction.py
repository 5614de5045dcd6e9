"""A window that is full: old output is left out once, the same step is asked again, and everything is on record."""

from __future__ import annotations

from driving import drive, look, resumed_history, turn_of

from turnwright.kernel.compaction import STUB, old_output, stubbed
from turnwright.providers.script import Call, HttpError, Step
from turnwright.schema.facts import AttemptEnded, ContextCompacted
from turnwright.schema.messages import AssistantMessage, Message, ToolCall, ToolResult, ToolResults, UserMessage

TOO_LONG = HttpError(status=400, kind="bad_request", message="the request exceeds the available context size")


def shout(size: int) -> str:
    """Say a lot."""
    return "x" * size


def calls(*sizes: int) -> list[Step]:
    return [Step(calls=[Call(name="shout", arguments={"size": size})]) for size in sizes]


async def test_room_is_made_once_and_the_step_goes_on() -> None:
    steps = [*calls(50_000, 60_000, 70_000), Step(fault=TOO_LONG), Step(text="ok")]
    driven = await drive(steps, shout)
    assert driven.story[-1] == "turn.ended stop"
    assert [fact.verdict for fact in driven.facts if isinstance(fact, AttemptEnded)][-2:] == ["http_error", "complete"]
    (compacted,) = (fact for fact in driven.facts if isinstance(fact, ContextCompacted))
    assert compacted.stubbed == ("call_1_0", "call_2_0")
    outputs = [m.results[0].output for m in driven.model.prompts[-1].messages if isinstance(m, ToolResults)]
    assert [output.startswith(STUB) for output in outputs] == [True, True, False]
    before, after = driven.model.prompts[-2], driven.model.prompts[-1]
    assert before.lineage != after.lineage
    assert resumed_history(driven.facts).messages == driven.history.messages


async def test_a_second_overflow_in_the_same_step_ends_it() -> None:
    steps = [*calls(50_000, 60_000, 70_000), Step(fault=TOO_LONG, repeat=2)]
    driven = await drive(steps, shout)
    assert driven.story[-1] == "turn.ended provider-error"
    assert len(driven.model.prompts) == 5


async def test_where_nothing_can_be_left_out_there_is_no_second_try() -> None:
    driven = await drive([Step(fault=TOO_LONG)], look, turn=turn_of("x" * 1_000_000))
    assert driven.story[-1] == "turn.ended provider-error"
    assert len(driven.model.prompts) == 1


def results(*sizes: int) -> list[Message]:
    messages: list[Message] = [UserMessage(text="go")]
    for number, size in enumerate(sizes):
        call = ToolCall(id=f"c{number}", name="shout", arguments="{}")
        messages.append(AssistantMessage(calls=(call,)))
        messages.append(ToolResults(results=(ToolResult(call_id=f"c{number}", name="shout", output="x" * size),)))
    return messages


def test_what_may_go() -> None:
    assert old_output(results(50_000, 60_000, 70_000), None) == ("c0", "c1")
    assert old_output(results(50_000, 60_000, 90_000), None) == ("c0", "c1", "c2")
    assert old_output(results(300, 60_000, 70_000), None) == ("c1",)
    assert old_output(results(10_000, 10_000), None) == ()
    assert old_output(results(10_000, 10_000, 3_000), 8_000) == ("c0", "c1")
    smaller = stubbed(results(50_000, 60_000, 70_000), {"c0", "c1"})
    assert old_output(smaller, None) == ()
