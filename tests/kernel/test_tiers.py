"""Which tier a request is given to, and how a run moves between them: pure tables."""

from __future__ import annotations

import pytest

from turnwright.kernel.tiers import Standing, asked_to_think, next_note, picked_for
from turnwright.schema.facts import Fact, GuardTripped, Note, StepStarted, ToolEnded
from turnwright.schema.tiers import Tier, Tiers

TIERS = Tiers(light="l", coder="c", reasoner="r")

REQUESTS: list[tuple[str, Tier]] = [
    ("hello there", "light"),
    ("hi, what is this?", "light"),
    ("where is the config read", "light"),
    ("fix the typo in README.md", "light"),
    ("rename foo to bar", "light"),
    ("Add a --json option to the list command", "coder"),
    ("Write a parser for the header and cover it with tests", "coder"),
    ("refactor the tests", "coder"),
    ("why does the build hang?", "reasoner"),
    ("Investigate the intermittent crash in the scheduler", "reasoner"),
    ("It fails with Traceback (most recent call last): ... find out why", "reasoner"),
    ("Fix it " + "in great detail, " * 100 + " debug", "reasoner"),
    ("Change a.py b.py c.py d.py and debug it", "reasoner"),
    ("", "coder"),
]


@pytest.mark.parametrize(("request_text", "tier"), REQUESTS, ids=[text[:30] or "(empty)" for text, _ in REQUESTS])
def test_a_request_is_given_to_a_tier(request_text: str, tier: Tier) -> None:
    picked = picked_for(request_text)
    assert picked.tier == tier
    assert picked.signals


def chosen(tier: Tier, first: bool = True) -> Note:
    return Note(code="tier", text="", data={"tier": tier, "before": None, "first": first})


def command(code: int) -> ToolEnded:
    return ToolEnded(name="bash", outcome="ok" if code == 0 else "failed", detail={"exit_code": code})


STEP = StepStarted(index=0)
REFUSED = ToolEnded(name="bsh", outcome="refused")
BLOCKED = ToolEnded(name="bash", outcome="refused", detail={"guard": "loop"})


def tripped(guard: str) -> GuardTripped:
    return GuardTripped(guard=guard, verdict="warn", why="")


RUNS: list[tuple[str, list[Fact], str, str | None]] = [
    ("nothing happened", [chosen("coder"), STEP], "c", None),
    ("one failure is no pattern", [chosen("coder"), STEP, command(1)], "c", None),
    ("two failures", [chosen("coder"), STEP, command(1), STEP, command(2)], "c", "coder → reasoner: 2 commands failed"),
    ("a success between them", [chosen("coder"), command(1), command(0), command(1)], "c", None),
    ("from light to coder", [chosen("light"), command(1), command(1)], "l", "light → coder: 2 commands failed"),
    ("there is nothing above", [chosen("reasoner"), command(1), command(1)], "r", None),
    ("malformed calls", [chosen("coder"), REFUSED, REFUSED], "c", "coder → reasoner: 2 calls could not be executed"),
    ("what a guard forbids is the guard's", [chosen("coder"), BLOCKED, BLOCKED], "c", None),
    ("a guard", [chosen("coder"), tripped("announced")], "c", "coder → reasoner: the guard announced tripped"),
    ("a guard that says nothing of the model", [chosen("coder"), tripped("injection")], "c", None),
    (
        "back after calm steps",
        [chosen("coder"), chosen("reasoner", first=False), STEP, STEP, STEP],
        "r",
        "reasoner → coder: 3 steps went well",
    ),
    ("never below what was asked for", [chosen("coder"), STEP, STEP, STEP, STEP], "c", None),
    (
        "what goes wrong starts the count anew",
        [chosen("coder"), chosen("reasoner", first=False), STEP, STEP, command(1), STEP],
        "r",
        None,
    ),
    ("before anything is chosen", [STEP, command(1), command(1)], "", None),
    (
        "somebody else had to answer",
        [chosen("coder"), STEP],
        "spare",
        "spare had to answer in place of a tier's model, so no tier is chosen any more",
    ),
]


@pytest.mark.parametrize(("facts", "route", "said"), [run[1:] for run in RUNS], ids=[run[0] for run in RUNS])
def test_a_run_moves_between_tiers(facts: list[Fact], route: str, said: str | None) -> None:
    standing = Standing()
    for fact in facts:
        standing.apply(fact)
    note = next_note(TIERS, standing, route, "t_1")
    assert (note.text if note else None) == said


def test_what_is_forced_stays() -> None:
    standing = Standing()
    for fact in (chosen("light"), command(1), command(1)):
        standing.apply(fact)
    forced = Tiers(light="l", coder="c", reasoner="r", forced="light")
    assert next_note(forced, standing, "l", "t_1") is None


@pytest.mark.parametrize(
    ("explicit", "tier", "able", "asked"),
    [
        (True, None, None, True),
        (True, "light", True, True),
        (True, None, False, None),
        (False, "reasoner", None, False),
        (None, "reasoner", True, True),
        (None, "reasoner", None, None),
        (None, "light", True, False),
        (None, "coder", True, None),
        (None, None, True, None),
    ],
)
def test_who_is_asked_to_think(explicit: bool | None, tier: Tier | None, able: bool | None, asked: bool | None) -> None:
    assert asked_to_think(explicit, tier, able) is asked
