"""What is worth another attempt, and what the same request can never better."""

from __future__ import annotations

import pytest
from driving import drive, turn_of

from turnwright.kernel.loop import run_turn
from turnwright.kernel.retry import is_retryable, kind_of
from turnwright.kernel.sample import OVERFLOWED
from turnwright.providers.script import HttpError, Reported, Script, Step, Tokens
from turnwright.providers.scripted import ScriptedModel
from turnwright.schema.facts import AttemptEnded, AttemptFault
from turnwright.schema.parts import StreamError
from turnwright.schema.verdicts import ErrorKind, Verdict
from turnwright.testing.clock import FakeClock
from turnwright.testing.ports import MemoryRecord, ports_for


@pytest.mark.parametrize(
    ("verdict", "status", "kind", "expected"),
    [
        ("http_error", 429, "rate_limit", True),
        ("http_error", 429, "billing", False),
        ("http_error", 402, "billing", False),
        ("http_error", 503, "overloaded", True),
        ("http_error", 401, "auth", False),
        ("http_error", 500, "server", True),
        ("http_error", 500, "bad_request", False),
        ("http_error", None, None, False),
        ("in_band_error", 200, "overloaded", True),
        ("in_band_error", 200, "billing", False),
        ("in_band_error", 200, None, True),
        ("in_band_error", 200, "bad_request", False),
        ("stall", 200, None, True),
        ("length", 200, None, False),
    ],
)
def test_retryable(verdict: Verdict, status: int | None, kind: ErrorKind | None, expected: bool) -> None:
    assert is_retryable(verdict, status, kind) is expected


@pytest.mark.parametrize(
    ("kind", "code", "expected"),
    [
        ("rate_limit", "insufficient_quota", "billing"),
        ("rate_limit", "billing_hard_limit_reached", "billing"),
        ("rate_limit", "rate_limit_exceeded", "rate_limit"),
        ("bad_request", "insufficient_quota", "bad_request"),
    ],
)
def test_an_empty_account_is_no_speed_limit(kind: ErrorKind, code: str, expected: ErrorKind) -> None:
    assert kind_of(StreamError(kind=kind, message="", status=429, code=code)) == expected


EMPTY_ACCOUNT = HttpError(
    status=429, kind="rate_limit", message="You exceeded your current quota", code="insufficient_quota"
)
TOO_LONG = "the request exceeds the available context size"


@pytest.mark.parametrize(
    ("fault", "kind", "overflow"),
    [
        (EMPTY_ACCOUNT, "billing", False),
        (HttpError(status=500, message=TOO_LONG), "server", True),
        (Reported(kind="server", message=TOO_LONG), "server", True),
    ],
    ids=["empty account", "overflow by status", "overflow in the body"],
)
async def test_what_no_repetition_can_better_is_tried_once(
    fault: HttpError | Reported, kind: ErrorKind, overflow: bool
) -> None:
    driven = await drive([Step(fault=fault)])
    (ended,) = (fact for fact in driven.facts if isinstance(fact, AttemptEnded))
    assert ended.fault is not None
    assert (ended.fault.kind, ended.fault.overflow) == (kind, overflow)
    assert driven.outcome is not None and driven.outcome.reason == "provider-error"


async def test_a_conversation_cut_in_silence_is_on_record() -> None:
    """The answer may still be of use, so the verdict stays what it is."""
    clock, record = FakeClock(auto=True), MemoryRecord()
    script = Script(steps=[Step(text="?", usage=Tokens(input=200_001, output=1))], window=200_000)
    await run_turn(turn_of(), ports_for(ScriptedModel(script, clock=clock), clock=clock), record)
    (ended,) = (fact for fact in record.facts if isinstance(fact, AttemptEnded))
    assert ended.verdict == "complete"
    assert ended.fault == AttemptFault(message=OVERFLOWED, status=200, overflow=True)
