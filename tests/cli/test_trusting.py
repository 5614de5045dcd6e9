"""Trust through real commands: left out aloud, allowed by its hash, asked for once on a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

TURNWRIGHT = [sys.executable, "-m", "turnwright"]


class Place:
    def __init__(self, root: Path) -> None:
        self.work, self.home = root / "work", root / "home"
        self.work.mkdir()
        script = root / "script.yaml"
        script.write_text("- text: Hello there.\n")
        self.run = ("run", "hello", "--model", f"scripted/{script}")
        self.environ = {**os.environ, "TURNWRIGHT_HOME": str(self.home), "TERM": "xterm"}
        (self.work / "AGENTS.md").write_text("Be brief.\n")

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*TURNWRIGHT, *words],
            cwd=self.work,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def sections(self) -> set[str]:
        """What the newest conversation told its model."""
        shown = self.command("export", "last", "--format", "turnwright").stdout.splitlines()
        steps = [line for line in map(json.loads, shown) if line.get("type") == "step.started"]
        return set(steps[-1]["segments"])

    def at_terminal(self, *words: str, answer: str) -> str:
        """What somebody sees who answers the first question."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [*TURNWRIGHT, *words], cwd=self.work, env=self.environ, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        seen, answered, until = b"", False, time.monotonic() + 30
        while time.monotonic() < until:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    seen += os.read(ours, 65536)
                except OSError:
                    break
            if not answered and b"? " in seen and seen.endswith(b"? "):
                os.write(ours, answer.encode() + b"\n")
                answered = True
        assert process.wait(10) == 0
        os.close(ours)
        return seen.decode()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_is_not_trusted_is_left_out_and_said(place: Place) -> None:
    done = place.command(*place.run, "--output", "json")
    said = f"turnwright: not used, because not trusted: AGENTS.md. See `turnwright trust --show {place.work}`.\n"
    assert (done.returncode, done.stderr) == (0, said)
    assert "instructions" not in place.sections()
    assert '"code":"untrusted"' in place.command("export", "last", "--format", "turnwright").stdout

    required = place.command(*place.run, "--require-trust")
    assert (required.returncode, "brings what you have not trusted: AGENTS.md" in required.stderr) == (55, True)

    assert place.command("trust", "--show").returncode == 55
    assert place.command("trust").returncode == 0
    done = place.command(*place.run, "--require-trust", "--output", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "instructions" in place.sections()

    (place.work / "AGENTS.md").write_text("Be long.\n")
    assert "because changed since you trusted it: AGENTS.md" in place.command(*place.run, "--output", "json").stderr
    assert "instructions" not in place.sections()

    listed = json.loads(place.command("trust", "--list", "--json").stdout)
    assert list(listed) == [str(place.work)] and list(listed[str(place.work)]["trusted"]) == ["instructions:AGENTS.md"]
    assert place.command("trust", "--revoke").stdout == f"Nothing of {place.work} is trusted any more.\n"
    assert place.command("trust", "--list").stdout == "No folder is trusted.\n"


def test_a_repository_cannot_lead_requests_elsewhere(place: Place) -> None:
    config = place.work / ".turnwright" / "config.yaml"
    config.parent.mkdir()
    config.write_text(
        "model: openai/x\nproviders: {openai: {base_url: 'http://127.0.0.1:1/v1', api_key_env: SECRET}}\n"
    )
    explained = place.command("config", "explain", "providers", "--json")
    assert "127.0.0.1:1" not in explained.stdout
    assert ".turnwright/config.yaml" in explained.stderr
    shown = place.command("trust", "--show").stdout
    assert 'sets providers.openai.base_url to "http://127.0.0.1:1/v1"' in shown
    assert 'sets providers.openai.api_key_env to "SECRET"' in shown
    assert place.command("trust").returncode == 0
    assert "127.0.0.1:1" in place.command("config", "explain", "providers", "--json").stdout


def test_on_a_terminal_it_is_asked_once(place: Place) -> None:
    seen = place.at_terminal(*place.run, answer="never")
    assert "Do you trust them?" in seen and "Be brief." in seen and "Hello there." in seen
    assert "instructions" not in place.sections()
    assert "Do you trust them?" not in place.at_terminal(*place.run, answer="")
    (place.work / "AGENTS.md").write_text("Be long.\n")
    assert "Be long." in place.at_terminal(*place.run, answer="1")
    assert "instructions" in place.sections()
    assert "Do you trust them?" not in place.at_terminal(*place.run, answer="")
