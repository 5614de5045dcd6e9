"""Whatever the model says, whatever the limits are and whichever guards watch: a turn ends, once, for a stated reason,
asks for one summary at most, spends no more than it may, and leaves a history that a provider accepts."""

from __future__ import annotations

import asyncio
import os
from typing import Any, get_args

import msgspec
from driving import look, turn_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnwright.kernel.guards.guard_set import GuardSet
from turnwright.kernel.guards.registry import chosen
from turnwright.kernel.history import History
from turnwright.kernel.loop import run_turn
from turnwright.kernel.spending import Spending
from turnwright.providers.script import Broken, Call, HttpError, Reported, Stalled, Step, Tokens, Truncated
from turnwright.providers.scripted import ScriptedModel
from turnwright.schema.facts import AttemptStarted, Fact, GuardTripped, ModeChanged, Note, StepStarted, TurnEnded
from turnwright.schema.guards import Completion, Guards
from turnwright.schema.limits import Dispatch, Limits, Retry
from turnwright.schema.messages import AssistantMessage, RuntimeMessage, ToolResults
from turnwright.schema.modes import Course
from turnwright.schema.prompt import Prompt
from turnwright.schema.verdicts import StopReason
from turnwright.session.budget import Account
from turnwright.session.replay.tape import is_outside
from turnwright.testing.clock import FakeClock
from turnwright.testing.ports import FunctionTools, MemoryRecord, ports_for

EXAMPLES = int(os.environ.get("TURNWRIGHT_EXAMPLES", "120"))


def fail() -> str:
    """Fail."""
    raise ValueError("as it always does")


def write(path: str) -> str:
    """Write."""
    return f"wrote {path}"


def mark_task_complete(summary: str) -> str:
    """Say that it is done."""
    return f"Marked as done: {summary}"


LOOP_OF_WORDS = "this sentence comes again and again. " * 12
TEXTS = st.sampled_from(
    ["", "", "Done.", "Let me run the tests.", "I will now read the file:", "words\nDONE\n", LOOP_OF_WORDS, "{}"]
)
CALLS = st.one_of(
    st.builds(Call, name=st.just("look"), arguments=st.fixed_dictionaries({"path": st.sampled_from("ab")})),
    st.builds(Call, name=st.just("write"), arguments=st.fixed_dictionaries({"path": st.sampled_from("ab")})),
    st.builds(Call, name=st.sampled_from(["fail", "nothing", ""])),
    st.builds(Call, name=st.just("mark_task_complete"), arguments=st.just({"summary": "all of it"})),
    st.builds(Call, name=st.just("look"), raw=st.sampled_from(["{", "[]", '{"path":"a"}{"path":"b"}', "{}" * 20])),
)
FAULTS = st.sampled_from(
    [
        *[None] * 12,  # most replies come through
        Truncated(),
        Truncated(after=0),
        Stalled(wait_s=500.0),
        Reported(kind="overloaded"),
        Reported(kind="permission"),
        HttpError(status=401),
        HttpError(status=503),
        Broken(),
    ]
)
STEPS = st.builds(
    Step,
    text=TEXTS,
    reasoning=st.sampled_from(["", "", "thinking"]),
    calls=st.lists(CALLS, max_size=4),
    finish=st.sampled_from([None, None, "stop", "length", "tool_calls"]),
    fault=FAULTS,
    usage=st.one_of(st.just("none"), st.builds(Tokens, input=st.integers(0, 300), output=st.integers(0, 200))),
)
LIMITS = st.builds(
    Limits,
    max_steps=st.integers(1, 12),
    step_total_s=st.just(600.0),
    turn_wall_s=st.sampled_from([None, 2_000.0]),
    max_tokens=st.sampled_from([None, 500, 6_000]),
)
SMALL = st.integers(1, 4)


def guard(**fields: Any) -> Any:
    return st.fixed_dictionaries({"enabled": st.booleans(), **fields})


GUARDS = st.fixed_dictionaries(
    {
        "loop": guard(warn_at=SMALL, block_at=SMALL, alternate_at=st.integers(2, 6), monologue_at=SMALL),
        "refused": guard(in_a_row=SMALL, in_a_turn=SMALL),
        "tool_budget": guard(calls=st.integers(1, 8), per_reply=SMALL),
        "progress": guard(other=st.integers(1, 6), share=st.sampled_from([0.25, 1.0])),
        "empty": guard(delays_s=st.sampled_from([(), (2.0,), (2.0, 4.0)])),
        "reasoning_only": guard(nudges=SMALL),
        "announced": guard(nudges=SMALL),
        "length": guard(continues=SMALL),
        "repetition": guard(nudges=st.integers(0, 2)),
        "preconditions": guard(),
        "injection": guard(),
    }
)
COMPLETIONS = st.builds(
    Completion,
    enabled=st.booleans(),
    tool=st.booleans(),
    sentinel=st.sampled_from(["", "DONE"]),
    evidence=st.booleans(),
    asks=SMALL,
)
COURSES = st.sampled_from(
    [Course(), Course(), Course(sequence=("plan", "build"), plan_turn_limit=2), Course(sequence=("plan", "build"))]
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=1, max_size=6), LIMITS, GUARDS, COMPLETIONS, COURSES, st.integers(1, 4), st.booleans())
def test_a_guarded_turn_always_ends(
    script: list[Step],
    limits: Limits,
    guards: dict[str, Any],
    completion: Completion,
    course: Course,
    attempts: int,
    eager: bool,
) -> None:
    asyncio.run(the_turn_ends(script, limits, msgspec.convert(guards, Guards), completion, course, attempts, eager))


async def the_turn_ends(
    script: list[Step],
    limits: Limits,
    guards: Guards,
    completion: Completion,
    course: Course,
    attempts: int,
    eager: bool,
) -> None:
    asked: list[Prompt] = []

    def reply(prompt: Prompt) -> Step:
        asked.append(prompt)
        return script[(len(asked) - 1) % len(script)]

    clock, record, history = FakeClock(auto=True), MemoryRecord(), History("c_1")
    turn = turn_of(
        history=history,
        limits=limits,
        retry=Retry(attempts=attempts),
        dispatch=Dispatch(eager=eager, recover_leaked=eager),
        course=course,
        mode=course.sequence[0] if course.sequence else "build",
    )
    tools = FunctionTools(look, write, fail, mark_task_complete, effects={"write": "writes"})
    guarding = GuardSet(chosen(guards, completion))
    ports = ports_for(
        ScriptedModel(reply, clock=clock), clock=clock, tools=tools, ledger=Account(limits), guards=guarding
    )
    outcome = await run_turn(turn, ports, record)

    facts = record.facts
    assert [fact for fact in facts if isinstance(fact, TurnEnded)] == [facts[-1]]
    assert outcome.reason in get_args(StopReason)
    assert outcome.reason != "internal-error"
    assert_one_summary(facts, limits)
    assert_within_budget(facts, limits)
    assert_valid(history)
    assert all(isinstance(fact.said, RuntimeMessage | None) for fact in facts if isinstance(fact, GuardTripped))
    assert not [fact for fact in facts if isinstance(fact, Note) and is_outside(fact)]
    assert sum(isinstance(fact, ModeChanged) for fact in facts) <= max(0, len(course.sequence) - 1)


def assert_one_summary(facts: list[Fact], limits: Limits) -> None:
    """One request for it, one step that answers it, and no other behind that."""
    wanted = [
        fact
        for fact in facts
        if (isinstance(fact, Note) and fact.code == "wrap-up")
        or (isinstance(fact, GuardTripped) and fact.verdict == "force_answer")
    ]
    assert len(wanted) <= 1
    steps = [fact for fact in facts if isinstance(fact, StepStarted)]
    last = [fact for fact in steps if not fact.tools_offered]
    assert len(last) <= 1
    assert last == steps[-1:] or not last
    assert len(steps) <= limits.max_steps + 1


def assert_within_budget(facts: list[Fact], limits: Limits) -> None:
    """No call is begun once all is spent."""
    spending = Spending()
    for fact in facts:
        if isinstance(fact, AttemptStarted) and limits.max_tokens is not None:
            assert spending.spent.tokens < limits.max_tokens
            assert not spending.spent.unmetered
        spending.apply(fact)


def assert_valid(history: History) -> None:
    expected: tuple[str, ...] = ()
    for message in history.messages:
        if isinstance(message, ToolResults):
            assert tuple(result.call_id for result in message.results) == expected
            expected = ()
            continue
        assert expected == ()
        if isinstance(message, AssistantMessage):
            expected = tuple(call.id for call in message.calls)
            assert all(isinstance(msgspec.json.decode(call.arguments), dict) for call in message.calls)
    assert expected == ()
