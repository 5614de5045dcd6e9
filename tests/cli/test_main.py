"""The command line from outside: what is printed where, and the exit code."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import turnwright
from turnwright.cli import main as cli
from turnwright.cli.main import main
from turnwright.cli.parser import parser_of
from turnwright.cli.registry import COMMANDS


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("TURNWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


def process(*arguments: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "turnwright", *arguments], input=given, capture_output=True, timeout=60, check=False
    )


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 0
    assert capsys.readouterr() == (f"turnwright {turnwright.__version__}\n", "")


def test_version_imports_next_to_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules); from turnwright.cli.main import main; main(['--version']);"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[1].split() == ["__future__", "turnwright", "turnwright.cli", "turnwright.cli.main"]


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {name}" in said for name in COMMANDS)


def test_nothing_asked_is_a_mistake_with_the_overview(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: turnwright COMMAND")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_a_module(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser, module = parser_of(name)
    assert module.__doc__ is not None and module.__doc__.startswith(f"`turnwright {name}`: ")
    assert all(action.help for action in parser._actions)
    with pytest.raises(SystemExit) as left:
        main([*name.split(), "--help"])
    assert left.value.code == 0
    assert f"usage: turnwright {name}" in capsys.readouterr().out


MISTAKES = [
    (["rnu"], "turnwright: there is no command 'rnu'. Did you mean run?"),
    (["--verison"], "turnwright: there is no option --verison before a command. Did you mean --version?"),
    (["config"], "turnwright config needs a second word. There is: turnwright config explain."),
    (["config", "expalin"], "turnwright config needs a second word. There is: turnwright config explain."),
    (["wire"], "turnwright wire needs a second word. There is: turnwright wire sse, turnwright wire decode, "),
    (["doctor", "--jsno"], "turnwright doctor: there is no option --jsno. Did you mean --json?"),
    (["doctor", "--zzz=1"], "turnwright doctor: there is no option --zzz. See turnwright doctor --help."),
    (["doctor", "more"], "turnwright doctor: 'more' is one argument too many. See turnwright doctor --help."),
    (["schema"], "turnwright schema: missing: of. See turnwright schema --help."),
    (
        ["schema", "fact"],
        "turnwright schema: of cannot be 'fact', it is one of facts, live, settings, ir; did you mean facts",
    ),
    (["run", "x", "--max-steps", "few"], "turnwright run: --max-steps cannot be 'few'. See turnwright run --help."),
    (
        ["run", "x", "--output", "josn"],
        "turnwright run: --output cannot be 'josn', it is one of text, json, stream-json",
    ),
    (["run", "x", "--base-url", "http://h"], "--base-url needs a model. Give --model too."),
    (["run", "x", "--dialect", "d"], "--dialect is for the endpoint of --base-url. Give --base-url too."),
    (["wire", "decode"], "A body alone does not say what it speaks. Give --dialect."),
]


@pytest.mark.parametrize(("arguments", "said"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_a_mistake_is_one_sentence_and_exit_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


REFUSALS = [
    (["run", "x", "--cwd", "nowhere"], 42, "The workspace nowhere does not exist."),
    (["run", "x", "--cwd", "file"], 42, "The workspace file is not a folder."),
    (["run", "   "], 42, "The task is empty."),
    (["run", "x", "--config", "nowhere.yaml"], 52, "The configuration nowhere.yaml does not exist."),
    (["run", "x", "--max-steps", "-1"], 52, "loop.limits.max_steps = -1 is impossible."),
    (["run", "x", "--max-cost", "nan"], 52, "loop.limits.max_cost_usd"),
    (["run", "x"], 52, "No model is chosen."),
    (["config", "explain", "modle"], 42, "There is no setting modle."),
    (["show", "c_00000000000000000000"], 42, "There is no journal in"),
    (["journal", "verify"], 42, "There is no journal in"),
    (["wire", "sse", "nowhere"], 42, "The file nowhere cannot be read: No such file or directory."),
    (["wire", "sse", "--chunks", "file"], 42, "The input is not a JSON array of base64 strings"),
    (["patch", "apply", "--format", "udiff", "file"], 54, "There is no file in the patch."),
    (["patch", "apply", "--format", "udiff", "--dir", "nowhere", "file"], 42, "Cannot use the folder nowhere"),
]


@pytest.mark.parametrize(("arguments", "code", "said"), REFUSALS, ids=[" ".join(words) for words, _, _ in REFUSALS])
def test_bad_input_is_one_sentence_and_its_code(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("plain words\n")
    assert main(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"turnwright: {said}")
    assert err.count("\n") == 1


def test_a_key_in_a_message_is_masked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("timers: {gap_s: sk-0123456789abcdefABCDEF}\n")
    assert main(["config", "explain"]) == 52
    assert "sk-***DEF" in capsys.readouterr().err


def test_escape_codes_in_a_message_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["\x1b[31mred"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_a_bug_shows_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(words: list[str]) -> int:
        raise AssertionError(f"a bug in {words}")

    monkeypatch.setattr(cli, "_dispatch", broken)
    with pytest.raises(AssertionError, match="a bug in"):
        main(["doctor"])


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_dispatch", interrupted)
    assert main(["doctor"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_reader_that_leaves_is_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "turnwright", "schema", "facts"],
        stdout=write,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


def test_stdin_is_read_for_a_dash() -> None:
    done = process("wire", "sse", "-", given=b"event: tick\ndata: 1\n\n")
    assert (done.returncode, done.stdout) == (0, b'{"event":"tick","data":"1","id":"","retry":null}\n')


def test_chunks() -> None:
    done = process("wire", "sse", "--chunks", given=b'["ZGF0YTogaGVs","bG8KCg=="]')
    assert (done.returncode, done.stdout) == (0, b'{"event":"message","data":"hello","id":"","retry":null}\n')


def test_a_given_task_never_waits_for_stdin(tmp_path: Path) -> None:
    """stdin stays open and silent: a run that reads it would hang here."""
    read, write = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "turnwright", "run", "say hello"],
            stdin=read,
            capture_output=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(read)
        os.close(write)
    assert done.returncode == 52
    assert b"No model is chosen." in done.stderr


def test_a_task_from_a_pipe() -> None:
    assert process("run", given=b"").returncode == 42
    assert b"No model is chosen." in process("run", "-", given=b"say hello").stderr


def test_a_patch_is_applied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("one\r\ntwo\r\n", newline="")
    Path("p").write_text("--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n")
    assert main(["patch", "apply", "--format", "udiff", "--dir", str(tmp_path), "p"]) == 0
    assert "a.txt" in capsys.readouterr().out
    assert (tmp_path / "a.txt").read_bytes() == b"one\r\nthree\r\n"


READING = """
import sys
from turnwright.cli import given, main

def read(name):
    print("up", flush=True)
    return sys.stdin.buffer.read()

given.read_given = read
sys.exit(main.main(["wire", "sse"]))
"""


def test_sigint_while_a_command_reads() -> None:
    read, write = os.pipe()
    running = subprocess.Popen(
        [sys.executable, "-c", READING], stdin=read, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert running.stdout is not None and running.stdout.readline() == b"up\n"
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    finally:
        os.close(read)
        os.close(write)
    assert (running.returncode, out, err) == (130, b"", b"")
