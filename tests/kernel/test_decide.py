"""What happens after a reply: one row for each verdict, with and without a call."""

from __future__ import annotations

from typing import get_args

import pytest

from turnwright.kernel.decide import Act, AskAgain, Decision, End, decide
from turnwright.schema.messages import AssistantMessage, ToolCall
from turnwright.schema.verdicts import Verdict

CALL = ToolCall(id="a", name="read", arguments="{}")
SAID = AssistantMessage(text="Done.")
CALLING = AssistantMessage(text="I look.", calls=(CALL,))
LAST = End("max-steps", "200 steps")

WITHOUT_CALLS: dict[Verdict, str] = {
    "complete": "stop",
    "tool_calls": "stop",
    "length": "length",
    "refused": "refused",
    "cancelled": "cancelled",
    "reasoning_only": "provider-error",
    "empty": "provider-error",
    "malformed_call": "provider-error",
    "truncated": "provider-error",
    "in_band_error": "provider-error",
    "interstitial": "provider-error",
    "non_json": "provider-error",
    "stall": "provider-error",
    "http_error": "provider-error",
    "transport": "provider-error",
}


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_every_verdict_decides(verdict: Verdict) -> None:
    ended = decide(SAID, verdict, None)
    assert isinstance(ended, End)
    assert ended.reason == WITHOUT_CALLS[verdict]
    calling = decide(CALLING, verdict, None)
    acts = verdict in ("complete", "tool_calls", "malformed_call")
    assert calling == (Act((CALL,)) if acts else ended)


OTHERWISE: list[tuple[Decision, Decision]] = [
    (decide(CALLING, "tool_calls", LAST), LAST),
    (decide(SAID, "complete", LAST, nudged=True), LAST),
    (decide(SAID, "complete", None, nudged=True), AskAgain()),
    (decide(CALLING, "length", None, nudged=True), Act((CALL,))),
    (decide(SAID, "complete", None, next_mode="build"), AskAgain()),
    (decide(CALLING, "tool_calls", None, next_mode="build"), Act((CALL,))),
]


@pytest.mark.parametrize(("decided", "expected"), OTHERWISE)
def test_what_the_turn_is_at_comes_before_what_was_said(decided: Decision, expected: Decision) -> None:
    assert decided == expected
