"""Two conversations, step by step."""

from __future__ import annotations

from typing import Any

import msgspec

from turnwright.schema.facts import (
    AttemptEnded,
    ConversationOpened,
    Fact,
    ModelReplied,
    Recorded,
    StepStarted,
    Timing,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    encode_body,
)
from turnwright.schema.messages import AssistantMessage, ToolCall
from turnwright.schema.parts import Usage
from turnwright.views.comparison import First, compared, comparison_lines
from turnwright.views.text import plain

ONE, TWO = "c_00000000000000000001", "c_00000000000000000002"


def step(index: int, text: str = "", call: str = "", output: str = "ok", cost_usd: float | None = 0.5) -> list[Fact]:
    where: dict[str, Any] = {"turn_id": "t", "step_id": f"t#{index}"}
    calls = (ToolCall(id=f"call{index}", name="bash", arguments=call),) if call else ()
    facts: list[Fact] = [
        StepStarted(index=index, **where),
        AttemptEnded(
            attempt=1,
            route="r",
            verdict="tool_calls" if call else "complete",
            timing=Timing(total_ms=index),
            usage=Usage(input=100, output=10),
            cost_usd=cost_usd,
            **where,
        ),
        ModelReplied(message=AssistantMessage(text=text, calls=calls), verdict="complete", **where),
    ]
    if call:
        where |= {"call_id": f"call{index}"}
        facts.append(ToolStarted(name="bash", arguments=call, effect="runs", idempotency="once", **where))
        facts.append(ToolEnded(name="bash", outcome="ok", output=output, duration_ms=index, **where))
    return facts


def conversation(name: str, *facts: Fact, asked: str = "do it") -> list[Recorded]:
    head = [ConversationOpened(workspace="/w", model="m", turnwright="0"), TurnStarted(turn_id="t", text=asked)]
    return [
        Recorded(conversation_id=name, seq=seq, at=0, fact=fact, body=encode_body(fact))  # type: ignore[arg-type]
        for seq, fact in enumerate([*head, *facts], 1)
    ]


END = TurnEnded(turn_id="t", reason="stop", text="done")


def test_what_is_the_same_is_folded_away() -> None:
    a = conversation(ONE, *step(0, call="ls"), *step(1, "done"), END)
    b = conversation(TWO, *step(0, call="ls"), *step(1, "done", cost_usd=None), END)
    found = compared(a, b)
    assert (found.same_steps, found.first, found.steps) == (2, None, ())
    assert found.shared_facts == 8, "bytes differ from the cost on"
    assert (found.a.cost_usd, found.b.cost_usd) == (1.0, None)
    assert "nothing differs" in plain(comparison_lines(found))


def test_the_first_difference_is_named() -> None:
    base = [*step(0, call="ls"), *step(1, call="make"), *step(2, "done"), END]
    table: list[tuple[list[Fact], First]] = [
        (
            [*step(0, call="ls"), *step(1, call="make", output="failed"), *step(2, "done"), END],
            First(turn=1, step=2, field="call 1, output", a="ok", b="failed"),
        ),
        (
            [*step(0, call="ls"), *step(1, call="test"), *step(2, "done"), END],
            First(turn=1, step=2, field="call 1, arguments", a="make", b="test"),
        ),
        (
            [*step(0, call="ls"), *step(1, call="make"), *step(2, "no"), END],
            First(turn=1, step=3, field="text", a="done", b="no"),
        ),
        (
            [
                *step(0, call="ls"),
                *step(1, call="make"),
                *step(2, "done"),
                msgspec.structs.replace(END, reason="cancelled"),
            ],
            First(turn=1, step=0, field="end", a="stop", b="cancelled"),
        ),
    ]
    for facts, first in table:
        assert compared(conversation(ONE, *base), conversation(TWO, *facts)).first == first
    other = compared(conversation(ONE, *base), conversation(TWO, *base, asked="do that")).first
    assert other == First(turn=1, step=1, field="asked", a="do it", b="do that")


def test_steps_that_agree_again_stand_side_by_side() -> None:
    a = conversation(ONE, *step(0, call="ls"), *step(1, call="make"), *step(2, "done"), END)
    b = conversation(TWO, *step(0, call="ls"), *step(1, call="look"), *step(2, call="make"), *step(3, "done"), END)
    found = compared(a, b)
    assert [(pair.a and pair.a.step, pair.b and pair.b.step, pair.same) for pair in found.steps] == [
        (None, 2, False),
        (2, 3, True),
        (3, 4, True),
    ]
    assert (found.a.tools, found.b.tools) == ({"bash": 2}, {"bash": 3})
    shown = plain(comparison_lines(found)).splitlines()
    assert shown[2:8] == [
        "facts 1 to 9 are shared",
        "the same at first: 1 step",
        "first difference: turn 1, step 2: step",
        "  A",
        "  B  bash look ok 100→10",
        "1.2    A  –",
    ]
