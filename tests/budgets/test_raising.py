"""Budgets through the real commands: warned, wrapped up, stopped, raised and carried on (K6)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from budget_place import PRICED, Place, Streamed, notes

STEP = "  - {text: working, calls: [{write: {path: %d.txt, content: x}}], usage: {input: 8, output: 2}}\n"
FINISHED = "  - {text: finished, usage: {input: 8, output: 2}}\n"
WORKING = "follow: history\nsteps:\n" + "".join(STEP % number for number in range(30)) + FINISHED


@pytest.mark.parametrize(
    ("option", "cap", "raised", "said", "reason"),
    [
        ("--max-cost", "1.25", "4.375", "{:.4f} of 1.2500 USD are spent", "cost-budget"),
        ("--max-tokens", "100", "350", "{:.0f} of 100 tokens are used", "token-budget"),
    ],
)
def test_a_budget_warns_stops_and_can_be_raised(
    place: Place, streamed: Streamed, option: str, cap: str, raised: str, said: str, reason: str
) -> None:
    model = place.model(PRICED + WORKING)
    unit = float(cap) / 10
    code, lines = streamed("run", "work", "--model", model, option, cap)
    assert (code, lines[-1]["reason"], lines[-1]["steps"]) == (56, reason, 10)
    assert notes(lines) == [("budget-warning", said.format(8 * unit))]
    assert lines[-1]["detail"] == said.format(10 * unit)
    name = lines[0]["conversation_id"]
    assert lines[-1]["remedy"].startswith(f"Raise it: turnwright resume {name} --continue {option} ")

    # What it had spent still counts, and the cap holds though nobody names it again.
    code, lines = streamed("resume", name, "--continue", "--model", model)
    assert (code, lines[-1]["reason"], lines[-1]["steps"]) == (56, reason, 0)

    code, lines = streamed("resume", name, "--continue", "--model", model, option, raised)
    assert (code, lines[-1]["reason"], lines[-1]["text"], lines[-1]["steps"]) == (0, "stop", "finished", 21)
    assert [code for code, _ in notes(lines)] == ["budget-changed", "carry-on", "budget-warning"]

    # A new task has a budget of its own.
    place.script.write_text(place.script.read_text() + "  - {text: more, usage: {input: 8, output: 2}}\n")
    code, lines = streamed("run", "--resume", name, "more", "--model", model, option, cap)
    assert (code, lines[-1]["text"]) == (0, "more")


def test_near_the_end_of_a_budget_a_summary_is_asked_for(place: Place, streamed: Streamed) -> None:
    steps = "steps:\n  - {calls: [{ls: {}}], usage: {input: 40, output: 8}, repeat: 2}\n  - {text: so far}\n"
    code, lines = streamed("run", "work", "--model", place.model(PRICED + steps), "--max-cost", "1.25")
    assert (code, lines[-1]["reason"], lines[-1]["text"]) == (56, "cost-budget", "so far")
    assert notes(lines) == [("wrap-up", "1.2000 of 1.2500 USD are spent")]


def test_a_call_that_a_crash_cut_off_counts_in_full(place: Place, streamed: Streamed) -> None:
    """Nobody saw what it cost, so it cost all that it could."""
    stalls = "follow: history\nmax_output: 50\nsteps: [{fault: {is: stall, wait_s: forever}, delay_s: 0.1}]\n"
    model = place.model(PRICED + stalls)
    words = [sys.executable, "-m", "turnwright", "run", "work", "--model", model, "--max-cost", "900", "--output"]
    with subprocess.Popen([*words, "stream-json"], stdout=subprocess.PIPE, text=True) as died:
        assert died.stdout is not None
        started = next(line for line in map(json.loads, died.stdout) if line["type"] == "attempt.started")
        died.kill()
    reserved_usd = started["reserved_usd"]
    assert reserved_usd == pytest.approx(started["reserved_tokens"] * 0.0125)
    place.model(PRICED + "steps: [{text: so far, usage: {input: 1, output: 1}}]\n")
    words = ["resume", started["conversation_id"], "--continue", "--model", model]
    code, lines = streamed(*words, "--max-cost", f"{reserved_usd * 1.1}")
    assert (code, lines[-1]["reason"]) == (0, "stop")
    assert [code for code, _ in notes(lines)] == ["budget-changed", "turn-resumed", "budget-warning"]
    assert notes(lines)[-1][1].startswith(f"{reserved_usd:.4f} of ")


def test_what_is_not_reported_cannot_be_held(place: Place, streamed: Streamed) -> None:
    steps = "steps:\n  - {calls: [{ls: {}}], usage: none}\n"
    for option, reason in (("--max-cost", "cost-budget"), ("--max-tokens", "token-budget")):
        code, lines = streamed("run", "work", "--model", place.model(PRICED + steps), option, "1000000")
        assert (code, lines[-1]["reason"], lines[-1]["steps"]) == (56, reason, 1)
        assert "cannot be held" in lines[-1]["detail"]
