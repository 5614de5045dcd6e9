"""`steer`, `queue`, `withdraw`, `stop` and `answer`, from processes that have nothing to do with the host."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pytest
from host_place import Follower, Place, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are watched as on Linux"),
]

NONE = "c_00000000000000000000"


def heard(place: Place, conversation_id: str) -> list[tuple[str, str]]:
    return [
        (line["type"], line["text"])
        for line in place.facts(conversation_id)
        if line["type"] in ("turn.started", "steering.delivered")
    ]


def test_what_is_said_during_a_tool_comes_after_it(place: Place) -> None:
    steps: list[dict[str, Any]] = [
        {"calls": [place.waits]},
        {"text": "left it is", "expect": {"user_contains": "left"}},
        {"text": "tidied", "expect": {"user_contains": "then tidy"}},
    ]
    host = place.host(steps)
    follower = Follower(place, host.id)
    wait_for(lambda: follower.has("tool.started"))
    steered = place.run("steer", host.id, "left")
    queued = json.loads(place.told("queue", host.id, "then tidy", "--json").stdout)
    dropped = place.told("queue", host.id, "never mind")
    assert (steered.returncode, queued["running"], dropped.returncode) == (0, True, 0)
    assert "after the current tools" in steered.stderr
    letter = dropped.stdout.strip()
    assert [line.split("  ")[1:] for line in place.told("queue", host.id).stdout.splitlines()] == [
        ["steer", "left"],
        ["queue", "then tidy"],
        ["queue", "never mind"],
    ]
    taken_back = [place.told("withdraw", host.id, letter) for _ in range(2)]
    assert [each.returncode for each in taken_back] == [0, 0], "twice is once"
    place.open_gate()
    host.ended()
    assert heard(place, host.id) == [
        ("turn.started", "do it"),
        ("steering.delivered", "left"),
        ("turn.started", "then tidy"),
    ]
    late = place.told("withdraw", host.id, steered.stdout.strip())
    assert (late.returncode, late.stderr.split()[-2:]) == (1, ["delivered", "already."])
    assert place.told("queue", host.id).stdout == "Nothing waits.\n"


def test_stop_ends_the_turn_within_a_second(place: Place) -> None:
    """And it says so when that is on record; what was queued goes on waiting."""
    host = place.host([{"calls": [{"bash": {"command": "sleep 600 & sleep 600"}}]}, {"text": "never"}])
    follower = Follower(place, host.id, "--until-idle")
    wait_for(lambda: follower.has("tool.started"))
    place.told("queue", host.id, "and then")
    stopped_at = time.time()
    stopped = place.run("stop", host.id)
    assert (stopped.returncode, stopped.stdout) == (0, f"The turn of {host.id} has ended: cancelled.\n")
    assert follower.process.wait(20) == 0
    ended = follower.facts[-1]
    assert (ended["type"], ended["reason"]) == ("turn.ended", "cancelled")
    # Less the start of the command itself, which is no part of the stop.
    requested = max(stopped_at * 1000, follower.facts[-2]["at"])
    assert ended["at"] - requested < 1_000 + 1_000
    host.ended()
    again = place.told("stop", host.id)
    assert (again.returncode, again.stdout) == (42, "")
    assert "is not running: its last turn has ended" in again.stderr
    place.told("queue", host.id, "and after that")
    assert place.told("stop", host.id).stderr == again.stderr
    assert place.told("follow", host.id, "--until-idle").returncode == 0
    assert "and then" in place.told("queue", host.id).stdout


def test_a_question_is_answered_from_another_process(place: Place) -> None:
    asks = {"ask_user": {"question": "Which way?", "choices": ["left", "right"]}}
    host = place.host([{"calls": [asks]}, {"text": "ok", "expect": {"result_is": "right"}}])
    wait_for(lambda: "Which way?" in place.told("answer", host.id).stdout)
    (question,) = [json.loads(line) for line in place.told("answer", host.id, "--json").stdout.splitlines()]
    assert (question["text"], question["choices"]) == ("Which way?", ["left", "right"])
    wrong = place.told("answer", host.id, "up")
    assert (wrong.returncode, wrong.stderr.split(". ")[1]) == (42, "Choose from: left, right.\n")
    assert place.told("answer", host.id, "x", "--question", "a_none").returncode == 42
    right = place.run("answer", host.id, "2")
    assert (right.returncode, right.stdout) == (0, "Answered: right\n")
    host.ended()
    answered = [line for line in place.facts(host.id) if line["type"] == "approval.answered"]
    assert [(line["answer"], line["by"]) for line in answered] == [("right", "user")]
    assert place.facts(host.id)[-1]["reason"] == "stop"


@pytest.mark.parametrize("options", [("--no-input",), ("--config", "{root}/config.yaml")])
def test_a_question_that_nobody_answers_is_a_denial(place: Place, options: tuple[str, ...]) -> None:
    (place.root / "config.yaml").write_text("host: {answer_wait_s: 0.1}\n")
    steps: list[dict[str, Any]] = [{"calls": [{"ask_user": {"question": "Well?"}}]}, {"text": "so be it"}]
    host = place.host(steps, *(option.format(root=place.root) for option in options))
    host.ended()
    assert place.facts(host.id)[-1]["reason"] == "needs-user"


def test_where_nobody_runs_it(place: Place) -> None:
    """What is said waits on disk for the next turn; the rest is refused in one sentence."""
    steps: list[dict[str, Any]] = [{"text": "one"}, {"text": "two", "expect": {"user_contains": "more"}}]
    host = place.host(steps)
    host.ended()
    said = place.told("steer", host.id, "more", "--json")
    assert (said.returncode, json.loads(said.stdout)["running"]) == (0, False)
    dropped = place.told("queue", host.id, "less")
    assert "it waits on disk" in dropped.stderr
    assert place.told("withdraw", host.id, dropped.stdout.strip()).returncode == 0
    for words in (("stop",), ("answer",), ("answer", "yes"), ("withdraw", "m_none")):
        refused = place.told(words[0], host.id, *words[1:])
        assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (42, "", 1), words
    unknown = place.told("steer", NONE, "hello")
    assert (unknown.returncode, unknown.stderr) == (
        42,
        f"turnwright: There is no conversation {NONE} in this journal. `turnwright sessions` lists them.\n",
    )
    assert place.told("steer", host.id, " ").returncode == 42
    place.resumed(host.id).ended()
    assert heard(place, host.id) == [("turn.started", "do it"), ("turn.started", "more")]
