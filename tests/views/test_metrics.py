from __future__ import annotations

import pytest
from fact_script import CONVERSATION, Script, call

from turnwright.kernel.history import History
from turnwright.kernel.loop import Turn, run_turn
from turnwright.providers.script import Call, Step, Tokens
from turnwright.providers.scripted import ScriptedModel
from turnwright.schema.facts import Fact, KnownFact, Note, TurnEnded, Unknown, decode_body, encode_body
from turnwright.schema.parts import Usage, add_usage
from turnwright.testing.clock import FakeClock
from turnwright.testing.ports import FunctionTools, MemoryRecord, ports_for
from turnwright.views.fold import folded
from turnwright.views.metrics import (
    Meter,
    Metrics,
    MetricsState,
    StepMetrics,
    ToolMetrics,
    current_step,
    current_turn,
    fold_metrics,
    metrics,
)

TOOL = call(1)


def of(script: Script) -> Metrics:
    return metrics(folded(fold_metrics, MetricsState(), script))


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Usage(), Usage(), Usage()),
        (Usage(input=0), Usage(), Usage(input=0)),
        (Usage(input=1, output=2), Usage(input=3, cache_read=4), Usage(input=4, output=2, cache_read=4)),
        (Usage(reasoning=1, cache_write=2), Usage(reasoning=1, cache_write=3), Usage(reasoning=2, cache_write=5)),
    ],
)
def test_absent_usage_is_not_zero(one: Usage, other: Usage, both: Usage) -> None:
    assert add_usage(one, other) == add_usage(other, one) == both


def test_one_step_in_full() -> None:
    script = Script().turn().step().asked().failed().asked(2, wait_ms=2_000)
    script.answered(2, usage=Usage(input=10, output=5), cost_usd=0.5).replied("", TOOL)
    script.began(TOOL).finished(TOOL, took_ms=30, outcome="failed").ended(wait_ms=5)
    (turn,) = of(script).turns
    meter = Meter(calls=2, usage=Usage(input=10, output=5), cost_usd=0.5, context_size=15)
    assert turn.steps == (
        StepMetrics(
            attempts=2,
            retries=1,
            verdicts={"http_error": 1, "complete": 1},
            usage=meter.usage,
            cost_usd=0.5,
            context_size=15,
            tools={"bash": ToolMetrics(calls=1, outcomes={"failed": 1}, duration_ms=30.0)},
            by_purpose={"turn": meter},
            index=0,
            step_id="t_1#0",
            started_at=script.recorded[0].at,
            start_ms=0.0,
            duration_ms=3535.0,
            ttft_ms=400.0,
            decode_ms=800.0,
            total_ms=1200.0,
        ),
    )
    assert (turn.duration_ms, turn.reason, turn.step_count) == (3535.0, "stop", 1)


def look(path: str) -> str:
    """Look at something."""
    return f"seen {path}"


def decoded(fact: Fact) -> KnownFact | Unknown:
    """As it would come back from a journal."""
    return decode_body(encode_body(fact))


async def test_a_turn_of_the_real_loop_says_the_same_in_its_end_and_in_its_metrics() -> None:
    """V5: what is persisted equals what was told."""
    calls = [[Call(name="look", arguments={"path": path}) for path in paths] for paths in ("ab", "c", "")]
    usages = [Tokens(input=100, output=7), Tokens(input=130, output=9, cache_read=90), Tokens(input=160, output=4)]
    steps = [Step(text="x", calls=each, usage=usage) for each, usage in zip(calls, usages, strict=True)]
    clock, record = FakeClock(auto=True), MemoryRecord()
    model = ScriptedModel(steps, clock=clock)
    asked = Turn(conversation_id=CONVERSATION, turn_id="t_1", text="look around", history=History(CONVERSATION))
    await run_turn(asked, ports_for(model, clock=clock, tools=FunctionTools(look)), record)
    script = Script()
    for fact in record.facts:
        script.add(decoded(fact))
    end = record.facts[-1]
    assert isinstance(end, TurnEnded)
    (turn,) = of(script).turns
    assert turn.tools["look"].calls == 3
    assert (turn.usage, turn.cost_usd, turn.step_count, turn.context_size, turn.reason) == (
        end.usage,
        end.cost_usd,
        end.steps,
        end.context_size,
        end.reason,
    )
    assert turn.context_size == 164


def test_times_are_absent_where_nothing_came() -> None:
    (turn,) = of(Script().turn().step().asked().failed().ended("provider-error")).turns
    (step,) = turn.steps
    assert (step.ttft_ms, step.decode_ms, step.total_ms) == (None, None, 300.0)


@pytest.mark.parametrize(
    ("usages", "costs", "cost_usd", "unmetered", "context_size"),
    [
        ([Usage(input=1, output=1)], [0.25], 0.25, False, 2),
        ([Usage(input=1, output=1), Usage(input=5, output=2)], [0.25, 0.5], 0.75, False, 7),
        ([Usage(input=1, output=1), Usage(input=5, output=2)], [None, 0.5], None, False, 7),
        ([None, Usage(input=5, output=2)], [None, 0.5], None, True, 7),
        ([Usage(input=5)], [None], None, True, None),
    ],
)
def test_an_unknown_cost_stays_unknown(
    usages: list[Usage | None],
    costs: list[float | None],
    cost_usd: float | None,
    unmetered: bool,
    context_size: int | None,
) -> None:
    script = Script().turn()
    for usage, cost in zip(usages, costs, strict=True):
        script.step().asked().answered(usage=usage, cost_usd=cost)
    total = of(script)
    meter = total.by_purpose["turn"]
    assert (total.cost_usd, meter.unmetered, total.context_size) == (cost_usd, unmetered, context_size)


def test_other_purposes_are_metered_apart() -> None:
    script = Script().turn().step().asked(purpose="compaction").answered(purpose="compaction", cost_usd=None)
    script.asked().answered(cost_usd=0.125)
    total = of(script)
    assert (total.attempts, total.retries, total.cost_usd, total.usage) == (1, 0, 0.125, Usage(input=1000, output=50))
    assert {name: (meter.calls, meter.cost_usd) for name, meter in total.by_purpose.items()} == {
        "compaction": (1, None),
        "turn": (1, 0.125),
    }


def test_calls_outside_any_turn_count_for_the_conversation() -> None:
    script = Script().opened().asked(purpose="title").answered(purpose="title")
    assert of(script).by_purpose["title"].calls == 1


def test_the_hours_in_which_the_process_was_dead_are_not_counted() -> None:
    script = Script().turn().step().asked().answered().replied("", TOOL).began(TOOL)
    script.add(Note(turn_id="t_1", code="turn-resumed", text="carried on"), wait_ms=3_600_000)
    script.finished(TOOL, took_ms=0, outcome="unknown").step().asked().answered().replied("done").ended()
    (turn,) = of(script).turns
    assert ([step.duration_ms for step in turn.steps], turn.duration_ms) == ([1200.0, 1200.0], 2400.0)


def test_a_turn_that_was_buried_took_until_its_last_sign_of_life() -> None:
    script = Script().turn().step().asked().answered().replied("", TOOL).began(TOOL)
    (turn,) = of(script.ended("cancelled", wait_ms=3_600_000)).turns
    assert turn.duration_ms == 1200.0


def test_calls_that_shared_a_run_count_its_time_once() -> None:
    twin = call(2)
    script = Script().turn().step().asked().answered().replied("", TOOL, twin).began(TOOL)
    script.finished(TOOL, took_ms=50).finished(twin, took_ms=50, detail={"shared_with": TOOL.id})
    assert of(script).tools == {"bash": ToolMetrics(calls=2, outcomes={"ok": 2}, duration_ms=50.0)}


def test_a_status_line_can_ask_at_any_time() -> None:
    state = MetricsState()
    assert (current_turn(state), current_step(state)) == (None, None)
    state = folded(fold_metrics, state, Script().turn().step().asked().answered().step().asked())
    turn, step = current_turn(state), current_step(state)
    assert turn is not None
    assert step is not None
    assert (turn.step_count, turn.attempts, step.index, step.attempts) == (2, 2, 1, 1)
