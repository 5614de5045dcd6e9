"""Whole runs of the command line against a server on loopback that knows no tools: it takes words and gives words."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from turnwright.schema.settings import TextDialect

Body = dict[str, Any]

GREETING = "print('hello')\n"
ADD = f"*** Begin Patch\n*** Add File: hello.py\n+{GREETING}*** End Patch\n"


@contextmanager
def plain_server(replies: Sequence[str]) -> Iterator[tuple[str, list[Body]]]:
    """Answers each request with the next reply, as a stream or whole; a request with tools in it is refused."""
    asked: list[Body] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body)
            refused = "tools" in body or any(message["role"] == "tool" for message in body["messages"])
            text = replies[min(len(asked), len(replies)) - 1]
            if refused:
                self._send(400, "application/json", json.dumps({"error": {"message": "no tools here"}}))
            elif body.get("stream"):
                deltas = [{"content": text[at : at + 3]} for at in range(0, len(text), 3)]
                frames: list[Any] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
                frames.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
                events = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames)
                self._send(200, "text/event-stream", events + "data: [DONE]\n\n")
            else:
                message = {"role": "assistant", "content": text}
                choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
                self._send(200, "application/json", json.dumps({"choices": choices}))

        def _send(self, status: int, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Place:
    def __init__(self, root: Path) -> None:
        self.work = root / "work"
        self.work.mkdir()
        self.config = root / "config.yaml"
        self._environ = {"TURNWRIGHT_HOME": str(root / "home"), "PATH": "/usr/bin:/bin", "HOME": str(root)}

    def run(self, base_url: str, tools: Body) -> subprocess.CompletedProcess[str]:
        self.config.write_text(yaml.safe_dump({"tools": tools}))
        command = ["run", "make hello.py", "--base-url", base_url, "--model", "small", "--output", "stream-json"]
        return self.turnwright(*command, "--config", str(self.config), "--max-steps", "4")

    def turnwright(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "turnwright", *command],
            cwd=self.work,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def lines_of(done: subprocess.CompletedProcess[str]) -> list[Body]:
    return [json.loads(line) for line in done.stdout.splitlines()]


WRITE = json.dumps({"name": "write", "arguments": {"path": "hello.py", "content": GREETING}})
CALLS: list[tuple[TextDialect, str, str]] = [
    ("xml-json", f"I write it.\n<tool_call>\n{WRITE}\n</tool_call>", "write"),
    ("bash-block", f"I write it.\n```bash\ncat > hello.py <<'END'\n{GREETING}END\n```\n", "bash"),
    ("pythonic", f'I write it.\n[write(path="hello.py", content={GREETING!r})]', "write"),
    ("apply-patch", f"I write it.\n{ADD}", "patch"),
    ("unified-diff", f"I write it.\n```diff\n--- /dev/null\n+++ b/hello.py\n@@ -0,0 +1 @@\n+{GREETING}```", "patch"),
    ("search-replace", f"hello.py\n<<<<<<< SEARCH\n=======\n{GREETING}>>>>>>> REPLACE", "patch"),
]


@pytest.mark.parametrize("case", CALLS, ids=[dialect for dialect, _, _ in CALLS])
def test_a_model_without_tools_does_a_task(place: Place, case: tuple[TextDialect, str, str]) -> None:
    dialect, reply, tool = case
    with plain_server([reply, "hello.py says hello."]) as (base_url, asked):
        done = place.run(base_url, {"dialects": [dialect]})
    assert done.returncode == 0, done.stdout + done.stderr
    assert (place.work / "hello.py").read_text() == GREETING
    lines = lines_of(done)
    (started,) = [line for line in lines if line["type"] == "tool.started"]
    (ended,) = [line for line in lines if line["type"] == "tool.ended"]
    verdicts = [line["verdict"] for line in lines if line["type"] == "attempt.ended"]
    assert (started["name"], ended["outcome"], verdicts) == (tool, "ok", ["tool_calls", "complete"])
    assert (lines[-1]["text"], lines[-1]["reason"], lines[-1]["steps"]) == ("hello.py says hello.", "stop", 2)
    first, second = (body["messages"] for body in asked)
    assert first == second[: len(first)]
    assert [message["role"] for message in second] == ["system", "user", "assistant", "user"]
    assert second[2]["content"].strip() == reply.strip()
    assert second[3]["content"].startswith('<runtime-message code="tool-results" from="turnwright, not the user">')


def test_a_call_that_is_cut_off_is_answered_and_not_run(place: Place) -> None:
    with plain_server(["```bash\ntouch made", "I give up."]) as (base_url, asked):
        done = place.run(base_url, {"dialects": ["bash-block"], "include": ["bash"]})
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (place.work / "made").exists()
    (ended,) = [line for line in lines_of(done) if line["type"] == "tool.ended"]
    assert (ended["name"], ended["outcome"]) == ("bash", "refused")
    assert asked[1]["messages"][2]["content"] == "```bash\ntouch made\n"
    assert '<tool_response name="bash" error="true">' in asked[1]["messages"][3]["content"]


def test_without_a_dialect_the_tools_are_native(place: Place) -> None:
    with plain_server(["no"]) as (base_url, asked):
        done = place.run(base_url, {})
    assert (done.returncode, len(asked), "tools" in asked[0]) == (59, 1, True)


@pytest.mark.parametrize(
    ("dialects", "said"),
    [
        (["xml"], "tools.dialects cannot be \"['xml']\": it is a list of any of these: native, xml-json, bash-block"),
        (["native", "pythonic"], "The tool dialects native, pythonic do not go together"),
    ],
)
def test_dialects_that_cannot_be_are_refused_before_any_request(place: Place, dialects: list[str], said: str) -> None:
    with plain_server(["no"]) as (base_url, asked):
        done = place.run(base_url, {"dialects": dialects})
    assert (done.returncode, asked) == (52, [])
    assert said in done.stderr + done.stdout
