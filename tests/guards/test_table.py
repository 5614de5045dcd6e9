"""Every guard, with its defaults, through the real command line; and the same run without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from guard_cases import Case, cases, run

from turnwright.kernel.guards.kind import Kind
from turnwright.kernel.guards.registry import GUARDS

CASES = cases()
PARAMS = [pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.slow else []) for case in CASES]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWRIGHT_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("case", PARAMS)
def test_a_guard_trips_with_its_defaults(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = run(case, tmp_path, off=False, capture=capsys)
    assert seen.shows(case.expected) == case.expected
    said = [line for line in seen.lines if line["type"] == "guard.tripped" and line["guard"] == case.kind.name]
    assert {line["verdict"] for line in said} >= set(case.verdicts)
    assert all(line["why"] for line in said)
    assert [line["reason"] for line in seen.lines if line["type"] == "turn.ended"] == [seen.reason]
    assert not any(line["said"]["role"] != "runtime" for line in said if line.get("said"))
    if case.without is None:
        return
    without = run(case, tmp_path, off=True, capture=capsys)
    assert without.shows(case.without) == case.without
    assert not any(trip.startswith(f"{case.kind.name} ") for trip in without.trips)
    assert (without.reason, without.text, without.ran, without.trips) != (seen.reason, seen.text, seen.ran, seen.trips)


@pytest.mark.parametrize("kind", GUARDS, ids=[kind.name for kind in GUARDS])
def test_every_guard_of_the_registry_has_its_cases(kind: Kind) -> None:
    """A guard, or a verdict of one, that no case shows through the command line has no place in the table."""
    of = [case for case in CASES if case.kind is kind]
    trips = [trip.split() for case in of for trip in case.expected.get("trips", ())]
    shown = {verdict for name, verdict in trips if name == kind.name} | {each for case in of for each in case.verdicts}
    assert any(case.without is not None for case in of), "no case shows what is different without it"
    assert shown == set(kind.verdicts)
