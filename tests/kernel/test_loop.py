"""The turn loop from outside: what it records, what it says to the model, and why it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import msgspec
import pytest
from driving import Driven, calling, drive, look, turn_of

from turnwright.kernel.history import History
from turnwright.kernel.limits import Tally
from turnwright.kernel.loop import run_turn
from turnwright.kernel.ports import Block, Continue, ForceAnswer, Halt, Judgement, Letter, Nudge, Truncate, Warn
from turnwright.providers.script import Call, Expect, HttpError, Reported, Stalled, Step, Tokens, Truncated, WrongBody
from turnwright.providers.scripted import ScriptedModel, ScriptMismatch
from turnwright.schema.errors import ConfigError, JournalUnwritable
from turnwright.schema.facts import AttemptEnded, Fact, ModelReplied, Timing, ToolEnded, TurnEnded, TurnStarted, Unknown
from turnwright.schema.limits import Limits, Retry
from turnwright.schema.live import Heartbeat, LiveEvent, RetryWait, TextDelta, TurnSealed
from turnwright.schema.messages import (
    AssistantMessage,
    RuntimeMessage,
    ToolCall,
    ToolResult,
    ToolResults,
    UserMessage,
)
from turnwright.schema.parts import Closed, Done, Finish, Part, Text
from turnwright.schema.prompt import Prompt
from turnwright.schema.routes import Route
from turnwright.session.budget import Account
from turnwright.testing.clock import FakeClock
from turnwright.testing.ports import Cancellation, Heard, Letters, MemoryRecord, ports_for


async def test_a_turn_tells_its_whole_story_in_three_commits_per_step_at_most() -> None:
    driven = await drive([calling(path="a"), Step(text="done")])
    assert driven.story == [
        "turn.started",
        "step.started",
        "attempt.started",
        "attempt.ended 1 tool_calls",
        "model.replied '' ['look']",
        "tool.started look",
        "tool.ended look ok",
        "step.started",
        "attempt.started",
        "attempt.ended 1 complete",
        "model.replied 'done' []",
        "turn.ended stop",
    ]
    assert [len(batch) for batch in driven.batches] == [1, 2, 3, 3, 3]
    assert driven.history.messages == [
        UserMessage(text="do it"),
        AssistantMessage(calls=(ToolCall(id="call_1_0", name="look", arguments='{"path":"a"}'),), route="scripted"),
        ToolResults(results=(ToolResult(call_id="call_1_0", name="look", output="seen a"),)),
        AssistantMessage(text="done", route="scripted"),
    ]


async def test_the_start_of_an_act_is_durable_before_it_happens() -> None:
    record = MemoryRecord()

    def act() -> str:
        """Act."""
        return ",".join(str(fact.__struct_config__.tag) for fact in record.facts[-2:])

    model = ScriptedModel([calling("act"), Step(text="ok")])
    await run_turn(turn_of(), ports_for(model, act), record)
    ended = next(fact for fact in record.facts if isinstance(fact, ToolEnded))
    assert ended.output == "model.replied,tool.started"


LIMITED: list[tuple[str, Limits, Step, str, int]] = [
    ("steps", Limits(max_steps=3), calling(), "max-steps", 4),
    ("tokens near", Limits(max_tokens=1000), calling(), "token-budget", 5),
    (
        "wall near",
        Limits(turn_wall_s=100, step_total_s=None),
        Step(calls=[Call(name="look")], delay_s=24.5),
        "wall-timeout",
        5,
    ),
]


@pytest.mark.parametrize(
    ("limits", "step", "reason", "asked"), [row[1:] for row in LIMITED], ids=[row[0] for row in LIMITED]
)
async def test_a_soft_limit_asks_once_for_a_summary_without_tools(
    limits: Limits, step: Step, reason: str, asked: int
) -> None:
    def say(prompt: object) -> Step:
        assert hasattr(prompt, "tools")
        if prompt.tools:
            return Step(calls=step.calls, delay_s=step.delay_s, usage=Tokens(input=200, output=40))
        return Step(text="summary", calls=[Call(name="look")], usage=Tokens(input=20, output=4))

    clock = FakeClock(auto=True)
    record, model = MemoryRecord(), ScriptedModel(say, clock=clock)
    ports = ports_for(model, look, clock=clock, ledger=Account(limits))
    outcome = await run_turn(turn_of(limits=limits), ports, record)
    assert (outcome.reason, outcome.text, outcome.steps) == (reason, "summary", asked)
    asks = [m for m in model.prompts[-1].messages if isinstance(m, RuntimeMessage)]
    assert [ask.code for ask in asks] == ["wrap-up"]
    assert [bool(prompt.tools) for prompt in model.prompts] == [True] * (asked - 1) + [False]


HARD: list[tuple[str, Limits, Step, str, int]] = [
    ("idle", Limits(step_idle_s=50), Step(fault=Stalled(wait_s="forever")), "idle-timeout", 1),
    ("step", Limits(step_idle_s=None, step_total_s=50), Step(fault=Stalled(wait_s="forever")), "step-timeout", 1),
    (
        "wall",
        Limits(step_idle_s=None, step_total_s=None, turn_wall_s=50),
        Step(fault=Stalled(wait_s="forever")),
        "wall-timeout",
        1,
    ),
    (
        "tokens",
        Limits(max_tokens=100),
        Step(calls=[Call(name="look")], usage=Tokens(input=90, output=20)),
        "token-budget",
        1,
    ),
    ("no usage", Limits(max_tokens=100), Step(calls=[Call(name="look")], usage="none"), "token-budget", 1),
    ("unknown price", Limits(max_cost_usd=1), calling(), "cost-budget", 0),
]


@pytest.mark.parametrize(("limits", "step", "reason", "asked"), [row[1:] for row in HARD], ids=[row[0] for row in HARD])
async def test_each_hard_limit_ends_the_turn_with_its_own_reason(
    limits: Limits, step: Step, reason: str, asked: int
) -> None:
    driven = await drive([step], turn=turn_of(limits=limits))
    assert driven.outcome is not None
    assert (driven.outcome.reason, driven.story[-1]) == (reason, f"turn.ended {reason}")
    assert len(driven.model.prompts) == asked


async def test_the_first_words_are_heard_before_the_rest_is_read() -> None:
    """Though all of it has come and nothing more is waited for."""
    said: list[str] = []

    class Quick(ScriptedModel):
        async def attempt(self, route: Route, prompt: Prompt) -> AsyncGenerator[Sequence[Part], None]:
            yield [Text("first")]
            said.append("rest read")
            yield [Text(" second"), Finish(raw="stop", finish="stop"), Done()]
            yield [Closed(how="eof")]

    def heard(event: LiveEvent) -> None:
        if isinstance(event, TextDelta):
            asyncio.get_running_loop().call_soon(said.append, event.text)

    ports = msgspec.structs.replace(ports_for(Quick([]), look), emit=heard)
    await run_turn(turn_of(), ports, MemoryRecord())
    await asyncio.sleep(0)
    assert said == ["first", "rest read", " second"]


async def test_slow_but_steady_progress_is_not_idle() -> None:
    driven = await drive([Step(text="a b c d e f", gap_s=40)], turn=turn_of(limits=Limits(step_idle_s=50)))
    assert driven.outcome is not None
    assert driven.outcome.reason == "stop"


@pytest.mark.parametrize(("seconds", "told"), [(300.0, "tool.ended work ok"), (9000.0, "tool.ended work interrupted")])
async def test_a_tool_at_work_is_not_idle_but_bounded_by_the_step(seconds: float, told: str) -> None:
    clock = FakeClock(auto=True)

    async def work(seconds: float) -> str:
        """Work."""
        await clock.sleep(seconds)
        return "worked"

    limits = Limits(step_idle_s=50, step_total_s=500)
    steps = [calling("work", seconds=seconds), Step(text="ok")]
    driven = await drive(steps, work, turn=turn_of(limits=limits), clock=clock)
    assert told in driven.story
    assert driven.story[-1] == f"turn.ended {'stop' if seconds < 500 else 'step-timeout'}"


IMPOSSIBLE = [
    Limits(max_steps=-1),
    Limits(max_steps=0),
    Limits(step_idle_s=0),
    Limits(max_cost_usd=float("nan")),
    Limits(max_tokens=-5),
    Limits(step_idle_s=700, step_total_s=600),
    Limits(step_total_s=601, turn_wall_s=600),
]


@pytest.mark.parametrize("limits", IMPOSSIBLE, ids=str)
async def test_impossible_limits_are_refused_before_any_call(limits: Limits) -> None:
    record, model = MemoryRecord(), ScriptedModel([Step(text="never")])
    with pytest.raises(ConfigError, match=r"loop\.limits\."):
        await run_turn(turn_of(limits=limits), ports_for(model), record)
    assert (record.facts, model.prompts) == ([], [])


async def test_cancelling_while_the_model_speaks_keeps_what_was_said_in_the_record() -> None:
    cancel, heard = Cancellation(), Heard()

    def emit(event: object) -> None:
        if getattr(event, "text", "") == "half ":
            cancel.request()

    driven = await drive([Step(text="half an answer", gap_s=1)], cancel=cancel, emit=emit)
    assert driven.story[-2:] == ["attempt.ended 1 cancelled", "turn.ended cancelled"]
    ended = driven.facts[-2]
    assert isinstance(ended, AttemptEnded)
    assert ended.partial_text.startswith("half ")
    assert heard.events == []


async def test_cancelling_tools_gives_each_call_its_due_and_takes_out_what_never_started() -> None:
    cancel, clock, release = Cancellation(), FakeClock(auto=True), asyncio.Event()

    async def stubborn() -> str:
        """Will not stop."""
        cancel.request()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    steps = [Step(calls=[Call(name="look"), Call(name="stubborn"), Call(name="look", arguments={"path": "later"})])]
    driven = await drive(steps, look, stubborn, effects={"stubborn": "runs"}, cancel=cancel, clock=clock)
    assert driven.story[-4:] == [
        "tool.ended look ok",
        "tool.started stubborn",
        "tool.ended stubborn interrupted",
        "turn.ended cancelled",
    ]
    assert clock.monotonic() <= 1.0
    reply, results = driven.history.messages[-2:]
    assert isinstance(reply, AssistantMessage)
    assert isinstance(results, ToolResults)
    assert [call.name for call in reply.calls] == ["look", "stubborn"]
    assert [result.is_error for result in results.results] == [False, True]
    release.set()
    again = await drive([Step(text="hello")], turn=turn_of("next", history=driven.history))
    assert again.story[-1] == "turn.ended stop"


async def test_a_task_cancelled_from_outside_still_ends_its_turn() -> None:
    record, model = MemoryRecord(), ScriptedModel([Step(fault=Stalled(wait_s="forever"))])
    task = asyncio.create_task(run_turn(turn_of(), ports_for(model, clock=FakeClock()), record))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(record.facts[-1], TurnEnded)
    assert record.facts[-1].reason == "cancelled"


async def test_a_bug_is_loud_and_the_turn_still_ends() -> None:
    record, model = MemoryRecord(), ScriptedModel([Step(text="one")])
    model_without_steps = ScriptedModel([calling()])
    with pytest.raises(ScriptMismatch):
        await run_turn(turn_of(), ports_for(model_without_steps, look), record)
    assert isinstance(record.facts[-1], TurnEnded)
    assert record.facts[-1].reason == "internal-error"
    model.route(())


async def test_a_broken_journal_ends_everything_at_once() -> None:
    class Full(MemoryRecord):
        async def __call__(self, *facts: Fact) -> Sequence[int]:
            if len(self.facts) > 3:
                raise JournalUnwritable("disk full")
            return await super().__call__(*facts)

    record, model = Full(), ScriptedModel([calling(), Step(text="never")])
    with pytest.raises(JournalUnwritable):
        await run_turn(turn_of(), ports_for(model, look), record)
    assert len(model.prompts) == 1


RETRIED: list[tuple[str, list[Step], list[str], str, list[float]]] = [
    (
        "recovers",
        [Step(fault=HttpError(status=503)), Step(text="hi")],
        ["http_error", "complete"],
        "stop",
        [1.0],
    ),
    (
        "asked to wait",
        [Step(fault=HttpError(status=429, kind="rate_limit", retry_after_s=7)), Step(text="hi")],
        ["http_error", "complete"],
        "stop",
        [7.0],
    ),
    (
        "asked to wait too long",
        [Step(fault=HttpError(status=429, kind="rate_limit", retry_after_s=3600))],
        ["http_error"],
        "provider-error",
        [],
    ),
    (
        "three tries on one route",
        [Step(fault=WrongBody(), repeat=3)],
        ["interstitial"] * 3,
        "provider-error",
        [1.0, 4.0],
    ),
    ("a wrong key", [Step(fault=HttpError(status=401, kind="auth"))], ["http_error"], "provider-error", []),
    ("a bad request", [Step(fault=HttpError(status=400, kind="bad_request"))], ["http_error"], "provider-error", []),
    ("cut before content", [Step(fault=Truncated()), Step(text="hi")], ["truncated", "complete"], "stop", [1.0]),
    ("cut after content", [Step(text="half an", fault=Truncated(after=1))], ["truncated"], "provider-error", []),
    (
        "overloaded",
        [Step(fault=Reported(kind="overloaded")), Step(text="x")],
        ["in_band_error", "complete"],
        "stop",
        [1.0],
    ),
    ("refused in band", [Step(fault=Reported(kind="permission"))], ["in_band_error"], "provider-error", []),
    ("empty", [Step(), Step(text="hi")], ["empty", "complete"], "stop", [1.0]),
]


@pytest.mark.parametrize(
    ("steps", "verdicts", "reason", "waits"), [row[1:] for row in RETRIED], ids=[row[0] for row in RETRIED]
)
async def test_attempts(steps: list[Step], verdicts: list[str], reason: str, waits: list[float]) -> None:
    heard = Heard()
    driven = await drive(steps, emit=heard)
    ended = [fact for fact in driven.facts if isinstance(fact, AttemptEnded)]
    assert [fact.verdict for fact in ended] == verdicts
    assert driven.story[-1] == f"turn.ended {reason}"
    assert [event.delay_s for event in heard.events if isinstance(event, RetryWait)] == waits


async def test_the_attempt_budget_is_the_users() -> None:
    driven = await drive(
        [Step(fault=HttpError(status=500), repeat=5)], turn=turn_of(retry=Retry(preset="batch", attempts=5))
    )
    assert len(driven.model.prompts) == 5
    assert driven.story[-1] == "turn.ended provider-error"


async def test_a_retry_can_be_cancelled_while_it_waits() -> None:
    cancel, clock = Cancellation(), FakeClock(auto=True)

    def emit(event: object) -> None:
        if isinstance(event, RetryWait):
            cancel.request()

    driven = await drive([Step(fault=HttpError(status=503))], cancel=cancel, emit=emit, clock=clock)
    assert driven.story[-1] == "turn.ended cancelled"
    assert clock.monotonic() < 1.0


ENDINGS: list[tuple[str, Step, str, str]] = [
    ("length", Step(text="cut off", finish="length"), "length", "cut off"),
    ("refusal", Step(refusal="I will not"), "refused", ""),
    ("reasoning only", Step(reasoning="hm"), "provider-error", ""),
    ("a call cut by length is not run", Step(calls=[Call(name="look")], finish="length"), "length", ""),
]


@pytest.mark.parametrize(("step", "reason", "text"), [row[1:] for row in ENDINGS], ids=[row[0] for row in ENDINGS])
async def test_endings(step: Step, reason: str, text: str) -> None:
    driven = await drive([step])
    assert driven.outcome is not None
    assert (driven.outcome.reason, driven.outcome.text) == (reason, text)
    assert not any("tool.started" in line for line in driven.story)


async def test_bad_calls_are_answered_and_never_run() -> None:
    steps = [
        Step(
            calls=[
                Call(name="look", raw='{"path": '),
                Call(name="look", arguments={"depth": 3}),
                Call(name="loook"),
                Call(name="look", raw=""),
            ]
        ),
        Step(text="ok"),
    ]
    driven = await drive(steps)
    results = driven.history.messages[2]
    assert isinstance(results, ToolResults)
    assert [result.is_error for result in results.results] == [True, True, True, False]
    assert [line for line in driven.story if line.startswith("tool.started")] == ["tool.started look"]
    reply = driven.history.messages[1]
    assert isinstance(reply, AssistantMessage)
    assert [call.arguments for call in reply.calls] == ["{}", '{"depth":3}', "{}", "{}"]
    assert reply.calls[0].raw == '{"path": '


async def test_steering_comes_after_the_results_and_only_if_another_step_follows() -> None:
    letters = Letters(Letter(inbox_id="m1", text="faster"), Letter(inbox_id="m2", text="and better"))
    driven = await drive(
        [calling(), Step(text="ok", expect=Expect(user_contains="faster\n\nand better"))], inbox=letters
    )
    assert "steering.delivered 'faster\\n\\nand better'" in driven.story
    assert [type(message).__name__ for message in driven.history.messages] == [
        "UserMessage",
        "AssistantMessage",
        "ToolResults",
        "UserMessage",
        "AssistantMessage",
    ]
    unheard = Letters(Letter(inbox_id="m3", text="too late"))
    await drive([Step(text="done at once")], inbox=unheard)
    assert len(unheard.waiting) == 1


async def test_a_question_that_nobody_answers_is_a_denial_and_shows_in_the_reason() -> None:
    async def ask(context: object) -> str:
        """Ask."""
        answer = await context.ask("may I?", ("yes", "no"))  # type: ignore[attr-defined]
        return f"answer: {answer}"

    driven = await drive([calling("ask"), Step(text="fine")], ask, effects={"ask": "asks"})
    assert [line for line in driven.story if "approval" in line] == ["approval.asked", "approval.answered"]
    assert driven.outcome is not None
    assert (driven.outcome.reason, driven.outcome.denials) == ("needs-user", 1)


class Says:
    """A guard that says one thing when a certain fact comes by."""

    def __init__(self, kind: type[Fact], judgement: Judgement) -> None:
        self.kind, self.judgement = kind, judgement

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        if isinstance(fact, self.kind):
            self.kind = TurnEnded
            return [self.judgement]
        return [Continue()]

    def watch(self) -> None:
        return None

    def recall(self, fact: Fact | Unknown) -> None:
        del fact


SAID = RuntimeMessage(text="stop that", code="guarded")
GUARDED: list[tuple[str, Says, list[str], str]] = [
    ("warn", Says(ToolEnded, Warn(guard="g", why="w", said=SAID)), ["guard.tripped g warn"], "stop"),
    (
        "force",
        Says(ToolEnded, ForceAnswer(guard="g", why="w", said=SAID)),
        ["guard.tripped g force_answer"],
        "guard-stop",
    ),
    ("halt", Says(ToolEnded, Halt(guard="g", why="w")), ["guard.tripped g stop"], "guard-stop"),
    (
        "stop",
        Says(ToolEnded, Halt(guard="g", why="w", reason="refused", text="t")),
        ["guard.tripped g stop"],
        "refused",
    ),
    ("ask", Says(ModelReplied, Nudge(guard="g", why="w", said=SAID)), ["guard.tripped g ask"], "stop"),
    (
        "truncate",
        Says(ModelReplied, Truncate(guard="g", why="w", call_ids=("call_1_0",))),
        ["guard.tripped g truncate"],
        "stop",
    ),
    ("block", Says(ModelReplied, Block(guard="g", why="w", call_id="call_1_0")), ["guard.tripped g block"], "stop"),
]


@pytest.mark.parametrize(("guard", "tripped", "reason"), [row[1:] for row in GUARDED], ids=[row[0] for row in GUARDED])
async def test_what_a_guard_says_is_recorded_and_obeyed(guard: Says, tripped: list[str], reason: str) -> None:
    driven = await drive([calling(), Step(text="ok")], guards=guard)
    assert [line for line in driven.story if "guard" in line] == [
        *tripped,
        *([f"turn.ended {reason}"] if reason == "guard-stop" else []),
    ]
    assert driven.story[-1] == f"turn.ended {reason}"
    assert driven.outcome is not None
    assert driven.outcome.text == ("t" if reason == "refused" else "" if "stop" in tripped[0] else "ok")
    if tripped[0].endswith(("block", "truncate")):
        assert "tool.ended look refused" in driven.story
        assert "tool.started look" not in driven.story
    if "force" in tripped[0]:
        assert SAID in driven.model.prompts[-1].messages
        assert driven.model.prompts[-1].tools == ()


@pytest.mark.parametrize(("at", "asked"), [(TurnStarted, 0), (ModelReplied, 1), (TurnEnded, 2)])
async def test_a_guard_that_raises_never_fails_open(at: type[Fact], asked: int) -> None:
    """Nor does it keep the turn from its end, though it goes on raising."""
    broken = False

    class Broken:
        def judge(self, fact: Fact) -> Sequence[Judgement]:
            nonlocal broken
            broken = broken or isinstance(fact, at)
            if broken:
                raise ZeroDivisionError("in a guard")
            return ()

        def watch(self) -> None:
            return None

        def recall(self, fact: Fact | Unknown) -> None:
            del fact

    record, model = MemoryRecord(), ScriptedModel([calling(), Step(text="done")])
    with pytest.raises(ZeroDivisionError):
        await run_turn(turn_of(), ports_for(model, look, guards=Broken()), record)
    assert isinstance(record.facts[-1], TurnEnded)
    assert record.facts[-1].reason == "internal-error"
    assert len(model.prompts) == asked


async def test_timing_is_absent_where_nothing_came() -> None:
    clock = FakeClock(auto=True)
    driven = await drive([Step(text="a b", delay_s=2, gap_s=3)], clock=clock)
    failed = await drive([Step(fault=HttpError(status=401, kind="auth"), delay_s=1)], clock=clock)
    timings = [fact.timing for driven_ in (driven, failed) for fact in driven_.facts if isinstance(fact, AttemptEnded)]
    assert timings[0].ttft_ms == 2000.0
    assert timings[0].decode_ms == timings[0].total_ms - 2000.0
    assert timings[1].ttft_ms is None
    assert isinstance(timings[1], Timing)


async def test_context_size_is_the_last_steps_never_a_sum() -> None:
    steps = [
        Step(calls=[Call(name="look")], usage=Tokens(input=100, output=10)),
        Step(text="ok", usage=Tokens(input=150, output=5, cache_read=90)),
    ]
    driven = await drive(steps)
    assert driven.outcome is not None
    assert driven.outcome.context_size == 155
    assert (driven.outcome.usage.input, driven.outcome.usage.output, driven.outcome.usage.cache_read) == (250, 15, 90)
    assert driven.outcome.cost_usd is None


async def test_heartbeats_say_what_is_awaited_and_the_seal_comes_last() -> None:
    heard = Heard()
    await drive([Step(text="ok", delay_s=11)], emit=heard)
    beats = [event for event in heard.events if isinstance(event, Heartbeat)]
    assert [beat.elapsed_s for beat in beats] == [5.0, 10.0]
    assert "the model (scripted, attempt 1)" in beats[0].waiting_for
    assert isinstance(heard.events[-1], TurnSealed)


async def resumed(before: Driven, upto: str, steps: Sequence[Step], **kwargs: object) -> Driven:
    """Another process: folds the facts up to the first that is told as `upto`, then carries on."""
    kept = before.facts[: before.story.index(upto) + 1]
    history, tally = History("c_1"), Tally()
    for fact in kept:
        history.apply(fact)
        tally.apply(fact)
    return await drive(steps, turn=turn_of("", history=history, begun=tally), **kwargs)  # type: ignore[arg-type]


async def test_a_resumed_turn_runs_what_never_started_repeats_reads_and_owns_up_to_the_rest() -> None:
    def change() -> str:
        """Change something."""
        return "changed"

    tools = {"effects": {"change": "writes"}}
    plan = [
        Step(calls=[Call(name="look"), Call(name="change"), Call(name="look", arguments={"path": "b"})]),
        Step(text="ok"),
    ]
    whole = await drive(plan, look, change, **tools)  # type: ignore[arg-type]

    async def outcome_of(upto: str) -> list[str]:
        record, model = MemoryRecord(), ScriptedModel([Step(text="ok")])
        kept = whole.facts[: whole.story.index(upto) + 1]
        history, tally = History("c_1"), Tally()
        for fact in kept:
            history.apply(fact)
            tally.apply(fact)
        turn = turn_of("", history=history, begun=tally)
        await run_turn(turn, ports_for(model, tools=FunctionToolsOf(look, change)), record)
        return Driven(None, record, model, turn).story

    def FunctionToolsOf(*functions: object) -> object:
        from turnwright.testing.ports import FunctionTools

        return FunctionTools(*functions, effects={"change": "writes"})  # type: ignore[arg-type]

    final = ["step.started", "attempt.started", "attempt.ended 1 complete", "model.replied 'ok' []", "turn.ended stop"]
    assert await outcome_of("tool.started look") == [
        "note turn-resumed",
        "tool.started look",
        "tool.ended look ok",
        "tool.started change",
        "tool.ended change ok",
        "tool.started look",
        "tool.ended look ok",
        *final,
    ]
    assert await outcome_of("tool.started change") == [
        "note turn-resumed",
        "tool.ended change unknown",
        "tool.started look",
        "tool.ended look ok",
        *final,
    ]
    assert await outcome_of("tool.ended change ok") == [
        "note turn-resumed",
        "tool.started look",
        "tool.ended look ok",
        *final,
    ]


async def test_a_reply_that_was_recorded_is_not_asked_for_again() -> None:
    whole = await drive([calling(), Step(text="the answer")])
    after = await resumed(whole, "model.replied 'the answer' []", [])
    assert after.story == ["note turn-resumed", "turn.ended stop"]
    assert after.outcome is not None
    assert (after.outcome.text, after.outcome.steps) == ("the answer", 2)


async def test_the_summary_stays_latched_across_a_crash() -> None:
    limits = Limits(max_steps=1)
    record, model = MemoryRecord(), ScriptedModel([calling(), Step(text="sum")])
    await run_turn(turn_of(limits=limits), ports_for(model, look), record)
    whole = Driven(None, record, model, turn_of())
    upto = whole.story.index("note wrap-up") + 2
    history, tally = History("c_1"), Tally()
    for fact in whole.facts[:upto]:
        history.apply(fact)
        tally.apply(fact)
    after = await drive(
        [Step(text="sum", expect=Expect(tools=[]))], turn=turn_of("", history=history, begun=tally, limits=limits)
    )
    assert after.story.count("note wrap-up") == 0
    assert after.story[-1] == "turn.ended max-steps"
    asks = [m for m in after.model.prompts[-1].messages if isinstance(m, RuntimeMessage)]
    assert len(asks) == 1


async def test_a_guard_may_want_more_than_the_last_reply_and_ask_for_it_warmer() -> None:
    nudge = Nudge(guard="g", why="w", said=SAID, delay_s=3.0, warmer=0.2, warmer_if_thinking=0.1)
    clock = FakeClock(auto=True)
    driven = await drive([Step(text="I will look."), Step(text="ok")], guards=Says(ModelReplied, nudge), clock=clock)
    assert [prompt.temperature for prompt in driven.model.prompts] == [None, 0.9]
    assert driven.outcome is not None
    assert (driven.outcome.text, driven.outcome.steps, clock.monotonic()) == ("ok", 2, 3.0)
    assert [type(message).__name__ for message in driven.model.prompts[-1].messages] == [
        "UserMessage",
        "AssistantMessage",
        "RuntimeMessage",
    ]


async def test_an_attempt_that_failed_may_be_asked_for_again_in_other_words() -> None:
    nudge = Nudge(guard="g", why="w", said=SAID, delay_s=2.0)
    driven = await drive([Step(), Step(text="ok")], guards=Says(AttemptEnded, nudge))
    assert driven.story[2:] == [
        "attempt.started",
        "attempt.ended 1 empty",
        "guard.tripped g ask",
        "attempt.started",
        "attempt.ended 2 complete",
        "model.replied 'ok' []",
        "turn.ended stop",
    ]
    assert driven.model.prompts[-1].messages[-1] == SAID
