"""Whatever a journal holds, the model sees a history that a provider accepts, the same one every time."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwright.kernel.history import History, interrupted_text
from turnwright.schema.facts import (
    Fact,
    GuardTripped,
    ModelReplied,
    Note,
    SteeringDelivered,
    StepStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from turnwright.schema.messages import (
    AssistantMessage,
    Message,
    RuntimeMessage,
    ToolCall,
    ToolResult,
    ToolResults,
    UserMessage,
)


def asks(*ids: str, text: str = "") -> ModelReplied:
    calls = tuple(ToolCall(id=each, name="look", arguments="{}") for each in ids)
    return ModelReplied(step_id="t#0", message=AssistantMessage(text=text, calls=calls), verdict="tool_calls")


def started(call_id: str, idempotency: str = "repeatable") -> ToolStarted:
    return ToolStarted(
        call_id=call_id,
        name="look",
        arguments="{}",
        effect="reads" if idempotency == "repeatable" else "runs",
        idempotency="repeatable" if idempotency == "repeatable" else "once",
    )


def ended(call_id: str, output: str = "seen") -> ToolEnded:
    return ToolEnded(call_id=call_id, name="look", outcome="ok", output=output)


def said(call_id: str, output: str, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id=call_id, name="look", output=output, is_error=is_error)


USER = UserMessage(text="go")
OVER = TurnEnded(reason="cancelled")
SPOKE = RuntimeMessage(text="mind the step", code="x")


def calls_of(*ids: str, text: str = "") -> AssistantMessage:
    return asks(*ids, text=text).message


CASES: list[tuple[str, list[Fact], list[Message]]] = [
    ("whole", [asks("a"), started("a"), ended("a")], [calls_of("a"), ToolResults(results=(said("a", "seen"),))]),
    (
        "call order, not finish order",
        [asks("a", "b"), started("a"), started("b"), ended("b", "2"), ended("a", "1")],
        [calls_of("a", "b"), ToolResults(results=(said("a", "1"), said("b", "2")))],
    ),
    (
        "started without an end is interrupted",
        [asks("a", "b"), started("a"), ended("a"), started("b"), OVER],
        [calls_of("a", "b"), ToolResults(results=(said("a", "seen"), said("b", interrupted_text("t#0"), True)))],
    ),
    (
        "never started is taken out",
        [asks("a", "b"), started("a"), ended("a"), OVER],
        [calls_of("a"), ToolResults(results=(said("a", "seen"),))],
    ),
    ("nothing left of a reply", [asks("a"), OVER], []),
    ("words stay", [asks("a", text="I will"), OVER], [AssistantMessage(text="I will")]),
    (
        "a result without a call is dropped",
        [ended("ghost"), asks("a"), started("a"), ended("a")],
        [calls_of("a"), ToolResults(results=(said("a", "seen"),))],
    ),
    (
        "an early start counts",
        [started("a"), ended("a"), asks("a")],
        [calls_of("a"), ToolResults(results=(said("a", "seen"),))],
    ),
    (
        "words between calls and results wait",
        [
            asks("a"),
            started("a"),
            Note(code="n", text="t", said=SPOKE),
            SteeringDelivered(text="hurry", inbox_ids=()),
            ended("a"),
        ],
        [calls_of("a"), ToolResults(results=(said("a", "seen"),)), SPOKE, UserMessage(text="hurry")],
    ),
    (
        "a guard's words",
        [
            GuardTripped(guard="g", verdict="warn", why="w", said=SPOKE),
            GuardTripped(guard="g", verdict="stop", why="w"),
        ],
        [SPOKE],
    ),
    ("an empty reply leaves nothing", [asks()], []),
    ("open calls are not shown yet", [asks("a"), started("a")], []),
]


@pytest.mark.parametrize(("facts", "messages"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_what_the_model_sees(facts: list[Fact], messages: list[Message]) -> None:
    history = folded([TurnStarted(text="go"), *facts])
    assert history.messages == [USER, *messages]


def test_what_is_open_after_a_crash() -> None:
    history = folded(
        [TurnStarted(text="go"), asks("a", "b", "c", "d"), started("a"), ended("a"), started("b"), started("c", "once")]
    )
    assert [(call.id, state) for call, state in history.open_calls()] == [
        ("a", "done"),
        ("b", "repeatable"),
        ("c", "unknown"),
        ("d", "not-started"),
    ]


def folded(facts: list[Fact]) -> History:
    history = History("c_1")
    for fact in facts:
        history.apply(fact)
    return history


IDS = st.sampled_from(["a", "b", "c", "d"])
FACTS = st.one_of(
    st.builds(TurnStarted, text=st.just("go")),
    st.builds(
        lambda ids, text: asks(*ids, text=text), st.lists(IDS, unique=True, max_size=3), st.sampled_from(["", "w"])
    ),
    st.builds(started, IDS),
    st.builds(ended, IDS),
    st.just(StepStarted(index=0)),
    st.just(Note(code="n", text="t", said=SPOKE)),
    st.just(SteeringDelivered(text="hurry", inbox_ids=())),
    st.just(OVER),
)


@given(st.lists(FACTS, max_size=30))
def test_every_history_is_valid_and_only_grows(facts: list[Fact]) -> None:
    history = History("c_1")
    seen: list[bytes] = []
    for fact in facts:
        history.apply(fact)
        now = [msgspec.json.encode(message) for message in history.messages]
        assert now[: len(seen)] == seen, "what was shown once never changes"
        seen = now
    history.settle()
    expected: tuple[str, ...] = ()
    for message in history.messages:
        if isinstance(message, ToolResults):
            assert tuple(result.call_id for result in message.results) == expected
            expected = ()
            continue
        assert expected == (), "every call has its result at once behind it"
        if isinstance(message, AssistantMessage):
            assert message.text or message.calls
            expected = tuple(call.id for call in message.calls)
    assert expected == ()
    before = list(history.messages)
    history.settle()
    assert history.messages == before
