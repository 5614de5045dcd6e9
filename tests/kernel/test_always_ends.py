"""Whatever the model says and whatever the limits are: a turn ends, once, with a stated reason, within its limits, and
leaves a history that a provider accepts."""

from __future__ import annotations

import asyncio
from typing import get_args

from driving import look, turn_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnwright.kernel.history import History
from turnwright.kernel.loop import run_turn
from turnwright.providers.script import Broken, Call, HttpError, Reported, Stalled, Step, Tokens, Truncated, WrongBody
from turnwright.providers.scripted import ScriptedModel
from turnwright.schema.facts import AttemptEnded, Note, StepStarted, TurnEnded, TurnStarted
from turnwright.schema.limits import Limits, Retry
from turnwright.schema.messages import AssistantMessage, RuntimeMessage, ToolResults
from turnwright.schema.prompt import Prompt
from turnwright.schema.verdicts import StopReason
from turnwright.session.budget import Account
from turnwright.testing.clock import FakeClock
from turnwright.testing.ports import FunctionTools, MemoryRecord, ports_for


def fail() -> str:
    """Fail."""
    raise ValueError("as it always does")


CALLS = st.one_of(
    st.builds(Call, name=st.just("look"), arguments=st.fixed_dictionaries({"path": st.sampled_from("abc")})),
    st.builds(Call, name=st.sampled_from(["fail", "nothing", ""])),
    st.builds(Call, name=st.just("look"), raw=st.sampled_from(["", "{", "[]", '{"x":1}', '{"path":"a"}{"path":"b"}'])),
)
FAULTS = st.one_of(
    st.none(),
    st.none(),
    st.builds(Truncated, after=st.sampled_from([None, 0, 1])),
    st.builds(Stalled, wait_s=st.sampled_from([1.0, 500.0])),
    st.builds(Reported, kind=st.sampled_from(["overloaded", "permission"])),
    st.builds(HttpError, status=st.sampled_from([401, 429, 503]), retry_after_s=st.sampled_from([None, 3.0, 9000.0])),
    st.builds(WrongBody),
    st.builds(Broken),
)
TOKENS = st.one_of(st.just("none"), st.builds(Tokens, input=st.integers(0, 200), output=st.integers(0, 100)))
STEPS = st.builds(
    Step,
    text=st.sampled_from(["", "", "words of the model"]),
    reasoning=st.sampled_from(["", "", "thinking"]),
    refusal=st.sampled_from(["", "", "", "no"]),
    calls=st.lists(CALLS, max_size=3),
    finish=st.sampled_from([None, None, "stop", "length", "tool_calls", "content_filter"]),
    fault=FAULTS,
    usage=TOKENS,
    delay_s=st.sampled_from([0.0, 0.0, 1.0, 70.0]),
)
LIMITS = st.builds(
    Limits,
    max_steps=st.integers(1, 8),
    step_idle_s=st.sampled_from([None, 40.0]),
    step_total_s=st.sampled_from([60.0, 600.0]),
    turn_wall_s=st.sampled_from([None, 700.0]),
    max_tokens=st.sampled_from([None, 400]),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=1, max_size=6), LIMITS, st.integers(1, 4))
def test_a_turn_always_ends(script: list[Step], limits: Limits, attempts: int) -> None:
    asyncio.run(the_turn_ends(script, limits, attempts))


async def the_turn_ends(script: list[Step], limits: Limits, attempts: int) -> None:
    asked: list[Prompt] = []

    def reply(prompt: Prompt) -> Step:
        """The script for ever: a model that never tires."""
        asked.append(prompt)
        return script[(len(asked) - 1) % len(script)]

    clock, record = FakeClock(auto=True), MemoryRecord()
    history = History("c_1")
    turn = turn_of(history=history, limits=limits, retry=Retry(attempts=attempts))
    tools = FunctionTools(look, fail)
    model = ScriptedModel(reply, clock=clock)
    outcome = await run_turn(turn, ports_for(model, clock=clock, tools=tools, ledger=Account(limits)), record)

    ends = [fact for fact in record.facts if isinstance(fact, TurnEnded)]
    assert isinstance(record.facts[0], TurnStarted)
    assert ends == [record.facts[-1]]
    assert outcome.reason in get_args(StopReason)
    assert outcome.reason != "internal-error"

    steps = sum(isinstance(fact, StepStarted) for fact in record.facts)
    summaries = sum(isinstance(fact, Note) and fact.code == "wrap-up" for fact in record.facts)
    assert steps <= limits.max_steps + 1
    assert summaries <= 1
    assert sum(isinstance(m, RuntimeMessage) and m.code == "wrap-up" for m in history.messages) == summaries
    per_step: dict[str | None, int] = {}
    for fact in record.facts:
        if isinstance(fact, AttemptEnded):
            per_step[fact.step_id] = per_step.get(fact.step_id, 0) + 1
    assert all(made <= attempts for made in per_step.values())
    if limits.turn_wall_s is not None:
        assert clock.monotonic() <= limits.turn_wall_s + 1

    expected: tuple[str, ...] = ()
    for message in history.messages:
        if isinstance(message, ToolResults):
            assert tuple(result.call_id for result in message.results) == expected
            expected = ()
            continue
        assert expected == ()
        if isinstance(message, AssistantMessage):
            expected = tuple(call.id for call in message.calls)
    assert expected == ()
