"""A process that dies in the second mode of its course: whoever carries the turn on stays in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from modes_place import Place

pytestmark = pytest.mark.slow
SCRIPT = """
follow: history
steps:
  - calls: [{ls: {}}]
  - text: "The plan: sleep."
  - calls: [{bash: {command: "sleep 60"}}]
  - text: Slept.
"""
CONFIG = "{loop: {sequence: [plan, build]}, prompts: {tool_prompt_mode: per_turn_append}}"


def test_a_kill_changes_no_mode(place: Place) -> None:
    place.run("run", "do it", "--mode", "plan", script="- text: A plan.", config=CONFIG)  # writes the configuration
    script = place.root / "killed.yaml"
    script.write_text(SCRIPT)
    command = [
        "run",
        "sleep well",
        "--model",
        f"scripted/{script}",
        "--cwd",
        str(place.work),
        "--output",
        "stream-json",
    ]
    running = subprocess.Popen([sys.executable, "-m", "turnwright", *command], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    with running:
        for text in running.stdout:
            line = json.loads(text)
            if line["type"] == "tool.started" and line["name"] == "bash":
                os.kill(running.pid, signal.SIGKILL)
                break
    again = place.run("resume", line["conversation_id"], "--continue", config=CONFIG, model="")
    assert (again.code, again.modes, again.changes, again.result["text"]) == (0, ["build"], [], "Slept.")
    told = [note["data"]["mode"] for note in again.of("note") if note["code"] == "mode-told"]
    assert told == []
    code, said = place.tell("replay", line["conversation_id"])
    assert code == 0, said
