"""A whole run whose workspace is on another computer, through the command line and a real sshd."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ssh_server import SshServer, ssh_server

from turnwright.app.far_machine import Far, far_of
from turnwright.schema.errors import ConfigError

__all__ = ["ssh_server"]

SLOW = "echo $$ > pid; setsid sleep 4719 & sleep 4719"
STEPS = [
    {"calls": [{"name": "bash", "arguments": {"command": "pwd; cat greeting.txt"}}]},
    {"calls": [{"name": "write", "arguments": {"path": "made.txt", "content": "made over there\n"}}]},
    {"calls": [{"name": "grep", "arguments": {"pattern": "over there"}}]},
    {"text": "Done over there."},
]


class Place:
    def __init__(self, root: Path, server: SshServer) -> None:
        self.far = root / "far"
        self.here = root / "here"
        self.home = root / "home"
        for folder in (self.far, self.here, self.home / ".ssh"):
            folder.mkdir(parents=True)
        (self.far / "greeting.txt").write_text("hello from afar\n")
        (self.home / ".ssh" / "config").write_text(server.host.config[0].read_text())
        self.script = root / "script.json"
        self.says({"steps": STEPS})

    def says(self, script: dict[str, Any]) -> None:
        self.script.write_text(json.dumps(script))

    def start(self, *words: str) -> subprocess.Popen[str]:
        environ = {**os.environ, "HOME": str(self.home), "TURNWRIGHT_HOME": str(self.home / "tw")}
        return subprocess.Popen(
            [sys.executable, "-m", "turnwright", *words],
            cwd=self.here,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def done(self, *words: str) -> tuple[int, list[dict[str, Any]], str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=60)
        return process.returncode, [json.loads(line) for line in out.splitlines() if line.startswith("{")], err

    def run(self, *words: str) -> tuple[int, list[dict[str, Any]], str]:
        model = ("--model", f"scripted/{self.script}", "--set", "permissions.autonomy=4")
        return self.done("run", "do it", *model, "--output", "stream-json", *words)


@pytest.fixture
def place(tmp_path: Path, ssh_server: SshServer) -> Iterator[Place]:
    ssh_server.configure()
    yield Place(tmp_path, ssh_server)


@pytest.mark.slow
def test_a_run_works_over_there(place: Place) -> None:
    code, told, err = place.run("--ssh", f"far:{place.far}")
    assert (code, told[-1]["text"]) == (0, "Done over there."), err
    ended = [fact["output"] for fact in told if fact["type"] == "tool.ended"]
    assert ended[0] == f"{place.far}\nhello from afar"
    assert ended[2] == "made.txt:1:made over there"
    assert (place.far / "made.txt").read_text() == "made over there\n"
    assert list(place.here.iterdir()) == []
    notes = [fact["text"] for fact in told if fact["type"] == "note" and fact["code"] == "far-workspace"]
    assert len(notes) == 1 and f"works in {place.far} on far" in notes[0]


@pytest.mark.slow
def test_turn_before_conversation_before_workspace_before_here(place: Place) -> None:
    pwd = {"calls": [{"name": "bash", "arguments": {"command": "pwd"}}]}
    place.says({"steps": [pwd, {"text": "There."}, pwd, {"text": "There again."}, pwd, {"text": "Here."}]})
    settings = place.home / "tw" / "config.yaml"
    settings.parent.mkdir()
    settings.write_text(f"machine: {{ssh: 'far:{place.far}'}}\n")
    outputs = []
    for words in (("run", "one"), ("run", "--continue", "two"), ("run", "--continue", "three", "--ssh", "local")):
        model = ("--model", f"scripted/{place.script}", "--set", "permissions.autonomy=4") if words[1] == "one" else ()
        code, told, err = place.done(*words, *model, "--output", "stream-json", "--sandbox", "off")
        assert code == 0, err
        outputs += [fact["output"] for fact in told if fact["type"] == "tool.ended"]
        settings.unlink(missing_ok=True)
    assert outputs == [str(place.far), str(place.far), str(place.here)]


@pytest.mark.slow
def test_killed_mid_command_the_outcome_is_unknown(place: Place) -> None:
    """And nothing of it is left over there."""
    place.says(
        {
            "follow": "history",
            "steps": [
                {
                    "calls": [
                        {"name": "bash", "arguments": {"command": "echo $$ > pid; setsid sleep 4719 & sleep 4719"}}
                    ]
                },
                {"text": "I do not know what became of it."},
            ],
        }
    )
    model = ("--model", f"scripted/{place.script}", "--set", "permissions.autonomy=4", "--ssh", f"far:{place.far}")
    process = place.start("run", "do it", *model, "--output", "stream-json")
    end = time.monotonic() + 20
    while not (place.far / "pid").exists() and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    end = time.monotonic() + 2
    while _alive("sleep 4719") and time.monotonic() < end:
        time.sleep(0.05)
    assert not _alive("sleep 4719")
    code, told, err = place.done("resume", "last", "--continue", "--output", "stream-json")
    assert code == 0, err
    outcomes = [fact["outcome"] for fact in told if fact["type"] == "tool.ended"]
    assert outcomes == ["unknown"]


def _alive(marker: str) -> bool:
    return subprocess.run(["pgrep", "-f", marker], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
def test_what_is_wrong_is_said_in_one_sentence(place: Place) -> None:
    code, _, err = place.run("--ssh", "nowhere-at-all.invalid:x")
    assert code == 1 and "nowhere-at-all.invalid cannot be reached" in err and "Traceback" not in err
    code, _, err = place.run("--ssh", "far:missing")
    assert code == 42 and "missing cannot be opened" in err
    code, _, err = place.run("--ssh", "far")
    assert code == 52 and "machine.ssh is 'far'" in err
    code, _, err = place.run("--ssh", f"far:{place.far}", "--require-sandbox")
    assert code == 44 and "have the rights of the user there" in err


@pytest.mark.parametrize(
    ("said", "far"),
    [
        ("", None),
        ("local", None),
        ("box:", Far(host="box", user="", folder=".")),
        ("me@box:/srv/app", Far(host="box", user="me", folder="/srv/app")),
        ("box:a:b", Far(host="box", user="", folder="a:b")),
    ],
)
def test_how_a_far_workspace_is_named(said: str, far: Far | None) -> None:
    assert far_of(said) == far


@pytest.mark.parametrize("said", ["box", ":folder", "-oProxyCommand=x:y", "a b:c", "a\n:c", "me@:x"])
def test_what_names_none(said: str) -> None:
    with pytest.raises(ConfigError, match=r"names no folder on a host.*Write HOST:FOLDER"):
        far_of(said)
