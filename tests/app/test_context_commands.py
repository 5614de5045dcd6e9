"""What the model is shown, and how to make it less: `compact`, `show --as-model`, what a resume says first."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from turnwright.cli.main import main

VARIED = " ".join(map(str, range(2_000)))[:6_000]
"""What repeats itself would be stopped."""


def script_of(steps: int, **more: Any) -> str:
    content = {"path": "made.txt", "content": VARIED}
    first = [{"calls": [{"name": "write", "arguments": {**content, "path": f"{n}.txt"}}]} for n in range(steps)]
    told = {"follow": "history", "digest": "Files were written.", "steps": [*first, {"text": "All written."}]}
    return json.dumps({**told, "price": {"input": 2.0, "output": 8.0}, **more})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("TURNWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(work)
    return work


def process(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "turnwright", *words]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)


def ran(place: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    (place.parent / "script").write_text(script)
    return process(*words, "--model", f"scripted/{place.parent / 'script'}")


def test_what_the_model_is_shown_is_condensed_on_request(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(place, script_of(8), "run", "write them").returncode == 0
    assert main(["show", "last", "--as-model", "--json"]) == 0
    before = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [message["role"] for message in before] == ["user", *["assistant", "tools"] * 8, "assistant"]
    assert process("compact", "last").stdout.startswith("condensed: ")
    assert main(["show", "last", "--as-model"]) == 0
    shown = capsys.readouterr().out
    assert "runtime (digest)" in shown and "Files were written." in shown and "Files changed: 0.txt" in shown
    assert shown.count("→ write") < 5
    assert main(["show", "last"]) == 0
    assert "now reaches the model as this digest" in capsys.readouterr().out
    assert main(["trace", "last"]) == 0


def test_a_conversation_too_short_to_condense(place: Path) -> None:
    assert ran(place, script_of(0), "run", "write nothing").returncode == 0
    done = process("compact", "last")
    assert (done.returncode, "nothing but the newest part is left" in done.stderr) == (42, True)


def test_the_window_of_the_configuration_is_kept(place: Path) -> None:
    """Wired from the settings through the engine to the loop."""
    place.parent.joinpath("config.yaml").write_text("loop: {compaction: {keep_tokens: 500, apart_steps: 0}}\n")
    config = ["--config", str(place.parent / "config.yaml"), "--output", "stream-json"]
    done = ran(place, script_of(14, window=12_000), "run", "write them", *config)
    facts = [json.loads(line) for line in done.stdout.splitlines()]
    compacted = [fact for fact in facts if fact["type"] == "context.compacted"]
    assert compacted and all(fact["why"] == "threshold" and fact["tokens_after"] < 6_000 for fact in compacted)
    place.parent.joinpath("config.yaml").write_text("loop: {compaction: {at_share: 1}}\n")
    done = ran(place, script_of(6, window=12_000), "run", "write them", *config)
    assert (done.returncode, "context.compacted" in done.stdout) == (0, False)


@pytest.mark.timeout(60)
def test_a_changed_instruction_file_is_said_before_it_is_paid_for(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "AGENTS.md").write_text("Be brief.\n")
    assert process("trust").returncode == 0
    assert ran(place, script_of(3), "run", "write them", "--max-steps", "2").returncode == 53
    assert main(["resume", "last"]) == 0
    assert "bought again" not in capsys.readouterr().out
    (place / "AGENTS.md").write_text("Be very brief.\n")
    assert process("trust").returncode == 0
    assert main(["resume", "last"]) == 0
    said = capsys.readouterr().out
    assert "not what it was in the last request: instructions" in said and "for up to $0.0" in said
    assert "prefix-changed: not what it was in the last request:" in process("resume", "last", "--continue").stderr
