"""A whole tree dies with its process: what is told of it, what stands, and who may carry it on (R2). And what other
processes may do to one subagent alone (S2)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

PARENT = """
follow: history
steps:
  - {text: I send one., calls: [{id: K1, name: task, arguments: {brief: do it, tools: [bash], max_steps: 5}}]}
  - {text: "I was told: {{last_result}}"}
"""
CHILD = """
follow: history
steps:
  - {text: first, calls: [{id: C1, name: bash, arguments: {command: echo C1 >> effects}}]}
  - {text: then, calls: [{id: C2, name: bash, arguments: {command: "echo C2 >> effects; sleep 60"}}]}
  - {text: "all done: {{last_result}}"}
"""


class Place:
    def __init__(self, root: Path) -> None:
        self.work, self.home = root / "work", root / "home"
        self.work.mkdir()
        (root / "parent.yaml").write_text(PARENT)
        (root / "child.yaml").write_text(CHILD)
        self.run = ["run", "go", "--model", f"scripted/{root}/parent.yaml"]
        self.run += ["--set", f"subagents.model=scripted/{root}/child.yaml"]
        self.effects = self.work / "effects"

    def command(self, *words: str) -> dict[str, Any]:
        """How to start it."""
        environment = {**os.environ, "TURNWRIGHT_HOME": str(self.home)}
        return {"args": [sys.executable, "-m", "turnwright", *words], "cwd": self.work, "env": environment}

    def until_it_sleeps(self) -> None:
        end = time.monotonic() + 30
        while not (self.effects.exists() and "C2" in self.effects.read_text()):
            assert time.monotonic() < end, "the subagent did not come so far"
            time.sleep(0.01)

    def __call__(self, *words: str) -> tuple[int, list[dict[str, Any]]]:
        done = subprocess.run(**self.command(*words), capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_what_a_crash_leaves_of_a_subagent(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with subprocess.Popen(**place.command(*place.run), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as dying:
        place.until_it_sleeps()
        dying.kill()
    _, listed = place("sessions", "--json")
    root, child = sorted((each["conversation_id"] for each in listed), key=lambda name: name != _root(listed))
    assert [each["state"] for each in listed] == ["open", "open"]

    # What is told before anything is done, of both.
    _, (in_flight,) = place("resume", "last", "--json")
    assert (in_flight["conversation_id"], [call["state"] for call in in_flight["calls"]]) == (root, ["unknown"])
    assert in_flight["calls"][0]["subagent"] == child
    _, (in_flight,) = place("resume", child, "--json")
    assert [(call["call_id"], call["state"]) for call in in_flight["calls"]] == [("C2", "unknown")]

    code, lines = place("resume", root, "--continue", "--output", "stream-json")
    assert (code, lines[-1]["reason"]) == (0, "stop")
    (ended,) = [line for line in lines if line["type"] == "subagent.ended"]
    assert (ended["conversation"], ended.get("reason"), ended["steps"]) == (child, None, 2)
    assert ended["spent_tokens"] > 0
    (result,) = [line for line in lines if line["type"] == "tool.ended"]
    assert result["outcome"] == "unknown"
    assert f"Its subagent (conversation {child}) came 2 steps far; what it did stands." in result["output"]
    assert lines[-1]["text"].startswith("I was told: interrupted")
    assert place.effects.read_text().split() == ["C1", "C2"], "nothing is done again"

    # The other one can be carried on by itself, with the errand that it had.
    code, lines = place("resume", child, "--continue", "--output", "stream-json")
    assert (code, lines[-1]["reason"]) == (0, "stop")
    assert lines[-1]["text"].startswith("all done: interrupted")
    assert place.effects.read_text().split() == ["C1", "C2"]
    _, facts = place("show", child, "--json")
    rules = next(fact["data"] for fact in facts if fact.get("code") == "turn-resumed")
    assert rules["limits.max_steps"] == 5
    for name in (root, child):
        code, (again,) = place("replay", name, "--json")
        assert (code, again["divergence"]) == (0, None)


def _root(listed: list[dict[str, Any]]) -> str:
    (name,) = {each["parent"] for each in listed if each["depth"]}
    return str(name)


@pytest.mark.slow
def test_one_alone_is_followed_steered_and_stopped(tmp_path: Path) -> None:
    """The process that runs its sender is its host too. Its sender is told, and goes on."""
    place = Place(tmp_path)
    with subprocess.Popen(**place.command(*place.run), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        place.until_it_sleeps()
        (child,) = [each["conversation_id"] for each in place("sessions", "--json")[1] if each["depth"]]
        assert subprocess.run(**place.command("steer", child, "be quick"), check=False, timeout=30).returncode == 0
        follow = subprocess.Popen(
            **place.command("follow", child, "--json", "--until-idle"), stdout=subprocess.PIPE, text=True
        )
        assert subprocess.run(**place.command("stop", child), check=False, timeout=30).returncode == 0
        followed, _ = follow.communicate(timeout=30)
        assert running.wait(30) == 0
    assert json.loads(followed.splitlines()[-1])["type"] in ("turn.ended", "turn-sealed")
    assert '"inbox.admitted"' in followed
    _, facts = place("show", "last", "--json")
    (ended,) = [fact for fact in facts if fact["type"] == "subagent.ended"]
    (told,) = [fact for fact in facts if fact["type"] == "tool.ended"]
    assert (ended["conversation"], ended["reason"], told["outcome"]) == (child, "cancelled", "failed")
    assert told["output"].startswith("Error: the subagent ended early (cancelled) after 2 steps.")
    assert (facts[-1]["reason"], place("replay", "last", "--json")[0]) == ("stop", 0)


@pytest.mark.parametrize("words", [["--json"], []])
def test_last_is_never_a_subagent(tmp_path: Path, words: list[str]) -> None:
    place = Place(tmp_path)
    (tmp_path / "child.yaml").write_text("follow: history\nsteps: [{text: here}]\n")
    assert place(*place.run, "--output", "json")[0] == 0
    done = subprocess.run(**place.command("show", "last", *words), capture_output=True, text=True, check=True)
    assert "I send one." in done.stdout
