"""The examples run, without a key and without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT, missing

SHOWN = {
    "custom_tool.py": ["There are 12 apples. Plums are not sold here.", "stop after 2 steps"],
    "stream_events.py": [
        "I write the file.",
        '  7  write {"path":"hello.txt","content":"hello\\n"}',
        "  8  write: ok",
        "The file says hello.",
        " 13  the turn ended: stop",
    ],
    "resume_conversation.py": [
        "Noted: 4711.",
        "It was 4711.",
        "You asked twice for 4711.",
        "Read it with: turnwright show c_0mwmq28g7j3tw8lmsu4v",
    ],
    "scripted_model.py": ["the licence was added"],
}


def test_every_example_is_known() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == SHOWN.keys()


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name)],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TURNWRIGHT_HOME": str(tmp_path / "home")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert missing(SHOWN[name], done.stdout) is None, done.stdout
