"""A window that is full: old output is left out once, the same step is asked again, and everything is on record."""

from __future__ import annotations

from driving import drive, look, resumed_history, turn_of

from turnwright.kernel.compaction import DIGEST, STUB, old_output, stubbed
from turnwright.kernel.history import History
from turnwright.kernel.limits import Tally
from turnwright.providers.script import Call, HttpError, Script, Step, Tokens
from turnwright.schema.facts import (
    AttemptEnded,
    ContextCompacted,
    Fact,
    Note,
    StepStarted,
    TurnStarted,
    Work,
)
from turnwright.schema.limits import Compaction
from turnwright.schema.messages import (
    AssistantMessage,
    Message,
    RuntimeMessage,
    ToolCall,
    ToolResult,
    ToolResults,
    UserMessage,
)

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
    assert old_output(results(50_000, 60_000, 70_000), 80_000) == ("c0", "c1")
    assert old_output(results(50_000, 60_000, 90_000), 80_000) == ("c0", "c1", "c2")
    assert old_output(results(300, 60_000, 70_000), 80_000) == ("c1",)
    assert old_output(results(10_000, 10_000), 80_000) == ()
    assert old_output(results(10_000, 10_000, 3_000), 8_000) == ("c0", "c1")
    smaller = stubbed(results(50_000, 60_000, 70_000), {"c0", "c1"})
    assert old_output(smaller, 80_000) == ()


WINDOW = 10_000
RULES = Compaction(keep_tokens=500, apart_steps=2)


def write(path: str, content: str) -> str:
    """Write a file."""
    return f"wrote {path}"


def todo(items: str) -> str:
    """Keep a list."""
    return f"[ ] {items}"


def working(count: int) -> list[Step]:
    """Steps whose arguments fill the window: nothing but their digest helps."""
    plan = Call(name="todo", arguments={"items": "win"})
    writes = [Call(name="write", arguments={"path": f"f{n}.txt", "content": "x" * 4_000}) for n in range(count)]
    return [Step(calls=[call, plan] if n == 0 else [call]) for n, call in enumerate(writes)]


def compactions(facts: list[Fact]) -> list[ContextCompacted]:
    return [fact for fact in facts if isinstance(fact, ContextCompacted)]


async def test_a_window_that_fills_is_condensed_before_it_is_full() -> None:
    """The newest steps, the words of the user, the plan and the lists of files stay; a digest stands for the rest."""
    script = Script(steps=[*working(9), Step(text="done")], digest="I wrote files.", window=WINDOW)
    driven = await drive(script, write, todo, effects={"write": "writes"}, turn=turn_of("make it", compaction=RULES))
    assert driven.story[-1] == "turn.ended stop"
    (compacted,) = compactions(driven.facts)
    assert (compacted.why, compacted.helped, compacted.from_step) == ("threshold", True, "t_1#7")
    assert compacted.tokens_before is not None and compacted.tokens_before >= 0.8 * WINDOW
    assert compacted.tokens_after is not None and compacted.tokens_after < 0.2 * WINDOW
    names = tuple(f"f{n}.txt" for n in range(7))
    assert compacted.work == Work(changed=names, unverified=names, plan="[ ] win")
    assert compacted.kept == (UserMessage(text="make it"),)
    head = driven.model.prompts[-1].messages[:2]
    assert head[0] == UserMessage(text="make it")
    assert isinstance(head[1], RuntimeMessage) and head[1].code == DIGEST
    for said in ("I wrote files.", "Files changed: f0.txt", "not verified", "[ ] win"):
        assert said in head[1].text
    assert resumed_history(driven.facts).messages == driven.history.messages


async def test_a_digest_is_asked_for_at_the_end_of_what_was_sent() -> None:
    """So that the provider has nearly all of it in its cache; its attempt is on record, and nothing of it is shown."""
    script = Script(steps=[*working(9), Step(text="done")], digest="I wrote files.", window=WINDOW)
    driven = await drive(script, write, todo, turn=turn_of("make it", compaction=RULES))
    at = next(n for n, prompt in enumerate(driven.model.prompts) if prompt.max_output_tokens)
    before, asking, after = driven.model.prompts[at - 1 : at + 2]
    assert asking.messages[: len(before.messages)] == before.messages
    assert (asking.system, asking.tools, asking.lineage) == (before.system, before.tools, before.lineage)
    assert isinstance(asking.messages[-1], RuntimeMessage)
    assert after.lineage != before.lineage
    start = driven.story.index("attempt.ended 1 complete (compaction)")
    assert driven.story[start - 2 : start + 4] == [
        "step.started",
        "attempt.started",
        "attempt.ended 1 complete (compaction)",
        "context.compacted",
        "attempt.started",
        "attempt.ended 1 tool_calls",
    ]
    assert sum(step.startswith("model.replied") for step in driven.story) == 10


async def test_stubs_are_enough_where_old_output_fills_the_window() -> None:
    """No model is asked."""
    steps = [Step(calls=[Call(name="shout", arguments={"size": 4_000})], repeat=9), Step(text="ok")]
    driven = await drive(Script(steps=steps, window=WINDOW), shout, turn=turn_of(compaction=RULES))
    (compacted,) = compactions(driven.facts)
    assert (compacted.digest, len(compacted.stubbed), compacted.why) == ("", 8, "threshold")
    assert driven.story[-1] == "turn.ended stop"


async def test_two_compactions_keep_their_distance() -> None:
    far = Compaction(keep_tokens=500, apart_steps=8)
    script = Script(steps=[*working(16), Step(text="done")], digest="d", window=WINDOW)
    near = await drive(script, write, todo, turn=turn_of(compaction=RULES))
    assert len(compactions(near.facts)) == 2
    spread = await drive(script, write, todo, turn=turn_of(compaction=far))
    steps = [fact.step_id for fact in compactions(spread.facts)]
    assert steps == ["t_1#8"] or int(str(steps[1]).partition("#")[2]) > 16


async def test_three_failures_open_the_breaker() -> None:
    """A model that writes no digest is asked three times, then no more; the turn goes on for as long as it may."""
    refused = Step(fault=HttpError(status=400, kind="bad_request", message="no"))
    late = [step for working_step in working(3) for step in (refused, working_step)]
    script = Script(steps=[*working(8), *late, *working(3), Step(text="done")], window=WINDOW)
    driven = await drive(script, write, todo, turn=turn_of(compaction=Compaction(keep_tokens=500, apart_steps=0)))
    assert sum(line == "note compaction-failed" for line in driven.story) == 3
    assert compactions(driven.facts) == []
    assert driven.story[-1] == "turn.ended stop"


async def test_an_overflow_with_the_breaker_open_ends_the_turn_and_says_so() -> None:
    history = History("c_1")
    for _ in range(3):
        history.apply(Note(code="compaction-failed", text="no digest"))
    steps = [*calls(50_000, 60_000, 70_000), Step(fault=TOO_LONG)]
    driven = await drive(steps, shout, turn=turn_of(history=history))
    assert driven.story[-1] == "turn.ended provider-error"
    assert driven.outcome is not None and "3 compactions in a row made no room" in driven.outcome.detail


async def test_an_overflow_is_condensed_where_stubs_are_not_enough() -> None:
    """What is asked for then leaves out long output and the newest part, since the whole did not fit."""
    script = Script(steps=[*working(9), Step(fault=TOO_LONG), Step(text="done")], digest="I wrote files.")
    driven = await drive(script, write, todo, turn=turn_of("make it", compaction=RULES))
    (compacted,) = compactions(driven.facts)
    assert (compacted.why, compacted.digest) == ("overflow", "I wrote files.")
    asking = next(prompt for prompt in driven.model.prompts if prompt.max_output_tokens)
    assert len(asking.messages) < len(driven.model.prompts[-3].messages) + 1
    assert driven.story[-1] == "turn.ended stop"


async def test_what_is_opened_from_the_cut_is_what_was_folded_from_the_start() -> None:
    """Who opens a conversation reads only what the last compaction left (J3)."""
    script = Script(steps=[*working(16), Step(text="done")], digest="I wrote files.", window=WINDOW)
    driven = await drive(script, write, todo, effects={"write": "writes"}, turn=turn_of("make it", compaction=RULES))
    assert len(compactions(driven.facts)) == 2
    through = compactions(driven.facts)[-1].through_seq
    assert isinstance(driven.facts[through], StepStarted)
    partly = resumed_history(driven.facts[through:])
    assert partly.messages == driven.history.messages
    assert (partly.work, partly.hash()) == (driven.history.work, driven.history.hash())
    assert not partly.rebuilt_differently and not resumed_history(driven.facts).rebuilt_differently


async def test_a_compaction_carries_on_what_the_turn_has_used() -> None:
    script = Script(steps=[*working(9), Step(text="done")], digest="d", window=WINDOW)
    driven = await drive(script, write, todo, turn=turn_of(compaction=RULES))
    (compacted,) = compactions(driven.facts)
    assert compacted.turn is not None
    tally = Tally()
    for fact in driven.facts[: driven.facts.index(compacted)]:
        tally.apply(fact)
    assert (Tally.of(compacted.turn).usage, compacted.turn.steps) == (tally.usage, tally.steps)


async def test_words_of_the_user_that_are_steering_are_kept_too() -> None:
    history = History("c_1")
    for text in ("first", "second", "third"):
        history.apply(TurnStarted(turn_id="t_0", text=text))
    script = Script(steps=[*working(9), Step(text="done")], digest="d", window=WINDOW)
    driven = await drive(script, write, todo, turn=turn_of("last", history=history, compaction=RULES))
    (compacted,) = compactions(driven.facts)
    assert [one.text for one in compacted.kept if isinstance(one, UserMessage)] == ["first", "second", "third", "last"]


async def test_counts_are_calibrated_by_what_a_route_reports() -> None:
    """A route that counts two characters to the token is near its window twice as early (C4)."""

    def steps(share: int) -> list[Step]:
        return [
            Step(
                calls=[Call(name="write", arguments={"path": "f", "content": "x" * 4_000})],
                usage=Tokens(input=n * 4_000 // share + 10, output=10),
            )
            for n in range(12)
        ]

    found = {}
    for share in (2, 4):
        script = Script(steps=[*steps(share), Step(text="done")], digest="d", window=20_000)
        driven = await drive(script, write, turn=turn_of(compaction=RULES))
        found[share] = [fact.step_id for fact in compactions(driven.facts)][:1]
    assert found == {2: ["t_1#9"], 4: []}
