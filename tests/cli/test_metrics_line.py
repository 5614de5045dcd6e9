"""The last line of a turn: what is known, what is more than that, and what was only reckoned."""

from __future__ import annotations

import pytest

from turnwright.cli.wording import metrics_said
from turnwright.schema.facts import AttemptEnded, KnownFact, Recorded, Timing, TurnEnded, TurnStarted
from turnwright.schema.parts import Usage
from turnwright.views.fold import folded
from turnwright.views.result import ResultState, fold_result


def said(*attempts: AttemptEnded, usage: Usage, cost_usd: float | None) -> str:
    facts: list[KnownFact] = [
        TurnStarted(turn_id="t", text="do it"),
        *attempts,
        TurnEnded(reason="stop", usage=usage, cost_usd=cost_usd),
    ]
    recorded = [
        Recorded(conversation_id="c", seq=seq, at=seq * 500, fact=fact, body=b"") for seq, fact in enumerate(facts, 1)
    ]
    result = folded(fold_result, ResultState(), recorded).result
    assert result is not None
    return metrics_said(result)


def attempt(usage: Usage | None, decode_ms: float | None = None, estimated: bool = False) -> AttemptEnded:
    timing = Timing(total_ms=2_000.0, decode_ms=decode_ms)
    return AttemptEnded(
        attempt=1, route="r", verdict="complete", timing=timing, usage=usage, cost_usd=0.5, cost_estimated=estimated
    )


WHOLE = Usage(input=3_000, output=100)
CACHED = Usage(input=3_000, output=100, cache_read=2_000)


@pytest.mark.parametrize(
    ("attempts", "usage", "cost_usd", "expected"),
    [
        ([attempt(WHOLE)], WHOLE, 0.5, "3.0k in, 100 out · $0.5000 · 1.0s"),
        ([attempt(CACHED)], CACHED, 0.5, "3.0k in (2.0k cached), 100 out · $0.5000 · 1.0s"),
        ([attempt(WHOLE, 2_000.0)], WHOLE, 0.5, "3.0k in, 100 out · $0.5000 · 1.0s · 50 tok/s"),
        ([attempt(WHOLE, 20.0)], WHOLE, 0.5, "3.0k in, 100 out · $0.5000 · 1.0s"),
        ([attempt(WHOLE, estimated=True)], WHOLE, 0.5, "3.0k in, 100 out · ~$0.5000 · 1.0s"),
        ([attempt(WHOLE, estimated=True)], WHOLE, None, "3.0k in, 100 out · $? · 1.0s"),
        ([attempt(WHOLE), attempt(None)], WHOLE, None, "≥3.0k in, ≥100 out · $? · 1.5s"),
        ([attempt(None)], Usage(), None, "? in, ? out · $? · 1.0s"),
    ],
)
def test_the_metrics_line(attempts: list[AttemptEnded], usage: Usage, cost_usd: float | None, expected: str) -> None:
    assert said(*attempts, usage=usage, cost_usd=cost_usd) == expected
