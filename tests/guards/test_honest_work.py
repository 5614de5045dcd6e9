"""Long and honest work finishes with the defaults, and no guard says a word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from guard_cases import everything_allowed, seen_in
from honest_work import CALLS, WORK

from turnwright.cli.main import main

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", WORK)
def test_honest_work_is_spared(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    task, steps = WORK[name](work)
    (home / "config.yaml").write_text(yaml.safe_dump({**everything_allowed(), "versions": {"enabled": False}}))
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps({"steps": steps}))
    monkeypatch.setenv("TURNWRIGHT_HOME", str(home))
    code = main(["run", task, "--model", f"scripted/{script}", "--cwd", str(work), "--output", "stream-json"])
    seen = seen_in(code, capsys.readouterr().out)
    assert (seen.reason, code, seen.trips, seen.ran) == ("stop", 0, (), CALLS[name])
    assert seen.text == steps[-1]["text"]
    ended = [line["outcome"] for line in seen.lines if line["type"] == "tool.ended"]
    assert set(ended) == {"ok"}
