"""`turnwright fork`, `run --fork` and `replay`, as a user types them."""

import json
from pathlib import Path
from typing import Any

import pytest

from turnwright.cli.main import main

WORK = """
follow: history
steps:
  - text: I look first.
    calls: [{ls: {}}]
  - calls: [{write: {path: made.txt, content: "made\\n"}}]
  - text: Made it.
  - text: And more.
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "work").mkdir()
    (tmp_path / "script.yaml").write_text(WORK)
    monkeypatch.setenv("TURNWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    return f"scripted/{tmp_path / 'script.yaml'}"


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(list(arguments))
    return code, json.loads(capsys.readouterr().out)


def facts(capsys: pytest.CaptureFixture[str], name: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["show", name, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_fork_shares_and_goes_on(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, first = told(capsys, "run", "make it", "--model", model, "--output", "json")
    parent = facts(capsys, first["conversation_id"])
    tool_started = next(each["seq"] for each in parent if each["type"] == "tool.started")
    code, forked = told(capsys, "fork", f"{first['conversation_id']}:{tool_started}", "--json")
    assert (code, forked["parent"], forked["asked"], forked["in_turn"]) == (
        0,
        first["conversation_id"],
        tool_started,
        True,
    )
    assert forked["at"] == 2, "before the step that the fact belongs to"
    assert main(["fork", f"{first['conversation_id']}:{tool_started}"]) == 0
    assert f":{tool_started} lies within a step; it was cut back to 2" in capsys.readouterr().err
    code, result = told(capsys, "resume", forked["conversation_id"], "--continue", "--output", "json")
    assert (code, result["text"], result["steps"]) == (0, "Made it.", 3)
    child = facts(capsys, forked["conversation_id"])
    assert [each["seq"] for each in child] == list(range(1, len(child) + 1))
    own = {"conversation_id": forked["conversation_id"]}
    assert child[:2] == [{**each, **own} for each in parent[:2]]
    assert (child[2]["type"], child[2]["parent"], child[2]["forked_at"]) == (
        "conversation.opened",
        first["conversation_id"],
        2,
    )
    assert facts(capsys, first["conversation_id"]) == parent
    for name in (first["conversation_id"], forked["conversation_id"]):
        assert told(capsys, "replay", name, "--json")[0] == 0
    assert main(["journal", "verify"]) == 0


def test_run_in_a_fork_with_other_settings_that_stay(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, first = told(capsys, "run", "make it", "--model", model, "--output", "json")
    settings = ["--set", "loop.limits.max_steps=1"]
    code, result = told(capsys, "run", "--fork", f"{first['conversation_id']}:2", "this", *settings, "--output", "json")
    assert (code, result["reason"]) == (53, "max-steps")
    assert result["conversation_id"] != first["conversation_id"]
    code, again = told(capsys, "run", "--resume", result["conversation_id"], "more", "--output", "json")
    assert (code, again["reason"]) == (53, "max-steps"), "what was set for a conversation stays set"
    assert told(capsys, "replay", result["conversation_id"], "--json")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["fork", "last:999"], 42, "has no fact 999"),
        (["fork", "last:0"], 42, "not a point"),
        (["fork", "last", "--set", "loop.limits.max_stepz=1"], 52, "max_steps"),
        (["fork", "last", "--set", "nothing"], 2, "KEY=VALUE"),
        (["replay", "c_nowhere"], 42, "There is no conversation"),
        (["replay", "last", "--from", "bytes"], 42, "were not kept"),
    ],
)
def test_what_cannot_be_is_said(
    model: str, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    told(capsys, "run", "make it", "--model", model, "--output", "json")
    assert main(arguments) == code
    assert said in capsys.readouterr().err


def test_tools_that_are_executed_again(model: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The copy is of the folder as it is: what the run made is there already, and is seen."""
    told(capsys, "run", "make it", "--model", model, "--output", "json")
    code, replayed = told(capsys, "replay", "last", "--tools", "live", "--json")
    assert (code, replayed["divergence"]["type"], replayed["divergence"]["field"]) == (61, "tool.ended", "output")
    assert replayed["divergence"]["replayed"].startswith("made.txt")
    (tmp_path / "work" / "made.txt").unlink()
    code, replayed = told(capsys, "replay", "last", "--tools", "live", "--json")
    assert (code, replayed["reran"], replayed["divergence"]) == (0, 2, None)
    assert not (tmp_path / "work" / "made.txt").exists()
