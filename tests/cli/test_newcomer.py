"""What a newcomer does wrong, and what the answer must be."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnwright.cli.main import main

HELLO = "- text: Hello there.\n"
LONG = """
follow: history
steps:
  - calls: [{bash: {command: "echo begun > begun.txt; sleep 60"}}]
  - text: Done.
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("TURNWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address at which nobody listens, and nobody can begin to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "turnwright", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def scripted(tmp_path: Path, script: str) -> str:
    (tmp_path / "script.yaml").write_text(script)
    return f"scripted/{tmp_path / 'script.yaml'}"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["rnu"], 2, "turnwright: there is no command 'rnu'. Did you mean run?"),
        (["run", "x", "--modle", "m"], 2, "turnwright run: there is no option --modle. Did you mean --model?"),
        (
            ["sessions", "--limit", "0"],
            2,
            "turnwright sessions: --limit cannot be '0'. See turnwright sessions --help.",
        ),
        (["health", "--hours", "-1"], 2, "turnwright health: --hours cannot be '-1'. See turnwright health --help."),
        (
            ["config", "explain", "loop.limts"],
            42,
            "turnwright: There is no setting loop.limts. Did you mean loop.limits?",
        ),
        (
            ["run", "x", "--model", "scripted/gone.yaml"],
            42,
            "turnwright: The script gone.yaml cannot be read: No such file or directory. "
            "Write --model scripted/FILE, a YAML file.",
        ),
    ],
)
def test_a_slip_is_answered_in_one_line(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    assert capsys.readouterr() == ("", f"{said}\n")


def test_the_demo_takes_no_folder_that_holds_something(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "work" / "README.md").write_text("mine\n")
    assert main(["demo", "--keep", "."]) == 42
    assert capsys.readouterr().err == (
        f"turnwright: The folder {tmp_path / 'work'} is not empty. Name a new or an empty folder with --keep.\n"
    )
    assert (tmp_path / "work" / "README.md").read_text() == "mine\n"


def test_the_demo_needs_a_folder_that_can_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "work" / "file").write_text("")
    assert main(["demo", "--keep", "file/below"]) == 42
    assert "file/below cannot be made: Not a directory." in capsys.readouterr().err


def test_nobody_listens(nowhere: str) -> None:
    done = process("run", "x", "--model", "m", "--base-url", f"http://{nowhere}/v1", "--output", "stream-json")
    assert done.returncode == 59
    first, *_, result = map(json.loads, done.stdout.splitlines())
    assert first["conversation_id"] == result["conversation_id"]
    assert (result["type"], result["reason"], result["is_error"]) == ("result", "provider-error", True)
    assert done.stderr.splitlines() == [
        f"turnwright: provider-error: endpoint/m: transport: no connection to {nowhere}: Connection refused; "
        "3 tries on this route failed. No connection, or it broke: check the base URL, the network and any proxy."
    ]
    assert f"no connection to {nowhere}: Connection refused" in process("show", "last").stdout


def test_a_result_names_its_conversation(tmp_path: Path) -> None:
    done = process("run", "x", "--model", scripted(tmp_path, HELLO), "--output", "json")
    listed = process("sessions", "--json")
    assert json.loads(done.stdout)["conversation_id"] == json.loads(listed.stdout)["conversation_id"]


def test_what_is_made_is_private(tmp_path: Path, home: Path) -> None:
    assert process("run", "x", "--model", scripted(tmp_path, HELLO)).returncode == 0
    assert (home / "data").stat().st_mode & 0o777 == 0o700
    assert "others may look" not in process("doctor").stdout


def test_following_shows_the_answer_too(tmp_path: Path) -> None:
    assert process("run", "x", "--model", scripted(tmp_path, HELLO)).returncode == 0
    followed = process("follow", "last", "--until-idle")
    assert followed.stdout == "Hello there.\n"
    assert "stop · 1 step" in followed.stderr


def test_a_turn_that_runs_elsewhere_was_not_interrupted(tmp_path: Path) -> None:
    running = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "turnwright",
            "run",
            "x",
            "--model",
            scripted(tmp_path, LONG),
            "--output",
            "stream-json",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert running.stdout is not None
        name = json.loads(next(line for line in running.stdout))["conversation_id"]
        next(line for line in running.stdout if '"tool.started"' in line)
        looked = process("resume", name)
        second = process("resume", name, "--continue")
    finally:
        running.terminate()
        running.communicate(timeout=60)
    assert looked.returncode == 0
    first, watch = looked.stdout.splitlines()
    assert first.startswith(f"{name} is running in process {running.pid} on ")
    assert watch == f"Watch it with: turnwright follow {name}"
    assert second.returncode == 1
    assert f"is being written by process {running.pid} on " in second.stderr
    assert running.returncode == 130


def test_last_is_no_probe(tmp_path: Path, nowhere: str) -> None:
    assert process("run", "x", "--model", scripted(tmp_path, HELLO)).returncode == 0
    assert process("probe", "m", "--base-url", f"http://{nowhere}/v1").returncode == 59
    assert json.loads(process("trace", "last", "--json").stdout)["turns"][0]["text"] == "x"


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A folder into which its owner may not look. Root may look into anything, unless it gives that right away."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o000)
    yield folder
    folder.chmod(0o700)


def unprivileged(*arguments: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "turnwright", *arguments]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root without setpriv cannot be shut out of anything")
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", *command]
    environ = {**os.environ, "TURNWRIGHT_HOME": str(home)} if home else dict(os.environ)
    return subprocess.run(
        command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("mode", ["build", "plan"])
def test_a_workspace_that_cannot_be_looked_into(tmp_path: Path, closed: Path, mode: str) -> None:
    done = unprivileged("run", "x", "--model", scripted(tmp_path, HELLO), "--cwd", str(closed), "--mode", mode)
    assert (done.returncode, done.stdout) == (42, "")
    assert done.stderr == (
        f"turnwright: The workspace {closed} cannot be looked into: Permission denied. "
        "Change its permissions, or name another with --cwd.\n"
    )


@pytest.mark.parametrize("command", ["sessions", "show last", "run x"])
def test_a_data_folder_that_cannot_be_looked_into(tmp_path: Path, closed: Path, command: str) -> None:
    model = ["--model", scripted(tmp_path, HELLO)] if command.startswith("run") else []
    done = unprivileged(*command.split(), *model, home=closed)
    # The user's config.yaml lies there too, and is the first thing that is missed.
    assert (done.returncode, done.stdout) == (52, "")
    assert done.stderr.count("\n") == 1
    assert "cannot be read: Permission denied." in done.stderr


@pytest.mark.parametrize("command", ["sessions", "show last", "run x"])
def test_a_journal_that_cannot_be_looked_into(tmp_path: Path, closed: Path, command: str) -> None:
    home = tmp_path / "other"
    home.mkdir()
    closed.rename(home / "data")
    model = ["--model", scripted(tmp_path, HELLO)] if command.startswith("run") else []
    done = unprivileged(*command.split(), *model, home=home)
    verified = unprivileged("journal", "verify", home=home)
    looked = unprivileged("doctor", home=home)
    (home / "data").rename(closed)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "cannot be used: Permission denied. Check the folder's permissions and its disk." in done.stderr
    assert (verified.returncode, verified.stdout, verified.stderr.count("\n")) == (42, "", 1)
    assert looked.returncode == 1
    assert f"broken  folder data    {home / 'data'} is not writable" in looked.stdout


def test_the_data_folder_is_never_the_workspace(tmp_path: Path) -> None:
    from turnwright import Agent
    from turnwright.schema.errors import InputError
    from turnwright.testing import ScriptedModel, Step

    agent = Agent(ScriptedModel([Step(text="hi")]), workspace=tmp_path, data_dir=tmp_path)
    with pytest.raises(InputError, match="lies inside the workspace"):
        agent.run_sync("x")


@pytest.mark.slow
def test_the_demo_runs_where_nothing_can_confine_its_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are its own. Whoever requires a sandbox is told, here as everywhere."""
    from turnwright.machine.sandbox.means import Found, Tried

    async def nothing_here(*_: object) -> Found:
        return Found(tried=(Tried(tier="namespaces", why="there is no bubblewrap"),))

    monkeypatch.setenv("TURNWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("turnwright.app.confining.means_here", nothing_here)
    assert main(["demo", "--keep", str(tmp_path / "project")]) == 0
    said = capsys.readouterr().err
    assert "Commands cannot be confined here (namespaces: there is no bubblewrap). The demo's few commands run" in said
    monkeypatch.setenv("TURNWRIGHT_MACHINE__REQUIRE_SANDBOX", "true")
    assert main(["demo", "--keep", str(tmp_path / "another")]) == 44
