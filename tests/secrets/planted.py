"""Fifty keys in eight encodings, sent through a whole session with failures, then looked for in everything it left.

usage: python planted.py: prints how many were planted, how many places were searched and what was found.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import shlex
import string
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import apsw

ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "hex": lambda key: key.encode().hex(),
    "URL-encoded": lambda key: urllib.parse.quote(key, safe=""),
    "JSON-escaped": lambda key: json.dumps(key)[1:-1],
    "shell-quoted": shlex.quote,
    "gzip + base64": lambda key: base64.b64encode(gzip.compress(key.encode(), mtime=0)).decode(),
    "UTF-16 + base64": lambda key: base64.b64encode(key.encode("utf-16")).decode(),
}
PREFIXES = ("sk-", "sk-ant-api03-", "ghp_", "github_pat_", "gsk_", "xai-", "hf_", "npm_", "glpat-", "pypi-", "AIza")
ENV_NAMES = ("SERVICE_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "CI_JOB_TOKEN", "STRIPE_SECRET", "SMTP_PASS")
ALNUM = string.ascii_letters + string.digits


class Planted:
    """What is planted, and by which way."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)

        def word(length: int, letters: str = ALNUM) -> str:
            return "".join(chance.choice(letters) for _ in range(length)) + chance.choice("0123456789")

        self.shaped = [PREFIXES[number % len(PREFIXES)] + word(36) for number in range(30)]
        self.shaped += [f"{'eyJ' + word(17)}.{word(30)}.{word(30)}" for _ in range(2)]
        self.environ = {name: word(24) for name in ENV_NAMES}
        self.environ |= {f"ODD_{number}_TOKEN": word(16, ALNUM + "/+ '\"$\\&é") + "Zq" for number in range(6)}
        self.environ["DATABASE_URL"] = f"postgres://user:{(in_url := word(20))}@db.invalid/x"
        self.environ["CALLBACK_URL"] = f"https://hook.invalid/?api_key={(in_query := word(20))}&x=1"
        self.provider = {"key": word(28), "header": word(28), "query": word(28)}
        self.keys = [
            *self.shaped,
            *(value for name, value in self.environ.items() if not name.endswith("_URL")),
            *(in_url, in_query),
            *self.provider.values(),
        ]
        self.keys.append("sk-proj-" + word(40))

    def written(self) -> Iterator[tuple[str, str]]:
        for number, key in enumerate(self.keys):
            for name, encode in ENCODINGS.items():
                yield f"key {number}, {name}", encode(key)


class Provider:
    """Says what it is told, and fails as providers do, quoting what it was sent."""

    def __init__(self, planted: Planted, outside: Path) -> None:
        self.planted = planted
        self.outside = outside
        self.requests = 0
        said = [text for _, text in planted.written()]
        self.steps: list[Callable[[BaseHTTPRequestHandler], None]] = [
            self.fails(401 + 99, " ".join(said[:160])),
            self.streams(text=" ".join(said), call={"command": f"cat {outside}/keys.txt; echo to stderr >&2; exit 3"}),
            self.breaks_off(" ".join(said[160:])),
            self.streams(call={"command": f"for i in $(seq 60); do cat {outside}/keys.txt; done"}),
            self.streams(call={"command": "echo " + " ".join(map(shlex.quote, said[::7]))}),
            self.streams(
                call={
                    "command": f"tr ' ' '\\n' < {outside}/keys.txt | while IFS= read -rN 7 x; do printf %s \"$x\"; done"
                }
            ),
            self.html(" ".join(said[::3])),
            self.streams(call={"path": said[0], "text": said[1]}, tool="no-such-tool"),
            self.streams(text="done " + " ".join(reversed(said))),
        ]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        step = self.steps[min(self.requests, len(self.steps) - 1)]
        self.requests += 1
        step(handler)

    @staticmethod
    def fails(status: int, said: str) -> Callable[[BaseHTTPRequestHandler], None]:
        def act(handler: BaseHTTPRequestHandler) -> None:
            sent = str(handler.headers.get("Authorization", ""))
            body = json.dumps({"error": {"message": f"broken: {sent} {handler.path} {said}", "code": "x"}}).encode()
            _send(handler, status, "application/json", body)

        return act

    @staticmethod
    def html(said: str) -> Callable[[BaseHTTPRequestHandler], None]:
        return lambda handler: _send(handler, 200, "text/html", f"<html>{said}</html>".encode())

    @staticmethod
    def breaks_off(said: str) -> Callable[[BaseHTTPRequestHandler], None]:
        def act(handler: BaseHTTPRequestHandler) -> None:
            _head(handler)
            for piece in _pieces(said[:4000]):
                _event(handler, {"choices": [{"index": 0, "delta": {"content": piece}}]})

        return act

    @staticmethod
    def streams(
        text: str = "", call: dict[str, Any] | None = None, tool: str = "bash"
    ) -> Callable[[BaseHTTPRequestHandler], None]:
        def act(handler: BaseHTTPRequestHandler) -> None:
            _head(handler)
            for piece in _pieces(text):
                _event(handler, {"choices": [{"index": 0, "delta": {"content": piece}}]})
            if call is not None:
                begun = {"index": 0, "id": f"call_{id(call)}", "type": "function"}
                named = {**begun, "function": {"name": tool, "arguments": ""}}
                _event(handler, {"choices": [{"index": 0, "delta": {"tool_calls": [named]}}]})
                for piece in _pieces(json.dumps(call)):
                    told = {"index": 0, "function": {"arguments": piece}}
                    _event(handler, {"choices": [{"index": 0, "delta": {"tool_calls": [told]}}]})
            finish = "tool_calls" if call is not None else "stop"
            usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
            _event(handler, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage})
            handler.wfile.write(b"data: [DONE]\n\n")

        return act


def _pieces(text: str) -> Iterator[str]:
    """As uneven as those of models."""
    chance = random.Random(len(text))
    at = 0
    while at < len(text):
        size = chance.choice((1, 2, 3, 5, 8, 40))
        yield text[at : at + size]
        at += size


def _head(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Connection", "close")
    handler.end_headers()


def _event(handler: BaseHTTPRequestHandler, event: dict[str, Any]) -> None:
    handler.wfile.write(
        b"data: " + json.dumps({"id": "x", "object": "chat.completion.chunk", **event}).encode() + b"\n\n"
    )


def _send(handler: BaseHTTPRequestHandler, status: int, kind: str, body: bytes) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(body)))
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(body)


class Session:
    """A home, a workspace, and everything that a session in it says or writes."""

    def __init__(self, root: Path, seed: int = 1) -> None:
        self.root = root
        self.planted = Planted(seed)
        self.work, self.home, self.outside = root / "work", root / "home", root / "outside"
        for folder in (self.work, self.home, self.outside):
            folder.mkdir()
        (self.outside / "keys.txt").write_text(" ".join(text for _, text in self.planted.written()))
        self.streams: dict[str, bytes] = {}

    def run(self) -> None:
        provider = Provider(self.planted, self.outside)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                provider.answer(self)

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                self._session(f"http://127.0.0.1:{server.server_port}/v1")
            finally:
                server.shutdown()

    def _session(self, base_url: str) -> None:
        planted = self.planted.provider
        config = {
            "model": "house/m",
            "capture": "all",
            "logging": {"file": str(self.home / "turn.log"), "level": "debug"},
            "loop": {"retry": {"attempts": 6}},
            "providers": {
                "house": {
                    "base_url": base_url,
                    "api_key_env": "HOUSE_THING",
                    "headers": {"X-House-Token": planted["header"]},
                    "query": {"api_key": planted["query"]},
                    "allow_unknown_models": True,
                }
            },
        }
        config["permissions"] = {"autonomy": 4}
        config["machine"] = {"write": [str(self.outside)]}  # and so within reach of commands
        (self.home / "config.yaml").write_text(json.dumps(config))
        told = "say " + " ".join(text for _, text in self.planted.written())[:20_000]
        self.say("run", "run", told, "--output", "stream-json")
        first = json.loads(self.streams["run stdout"].split(b"\n", 1)[0])["conversation_id"]
        for time in range(3):  # a stream that broke off ends a turn: the user carries on
            self.say(f"run on {time}", "resume", first, "--continue", "--output", "stream-json")
        (self.home / "config.yaml").write_text(json.dumps({**config, "model": f"house/{self.planted.keys[0]}/{{"}))
        self.say("a bad setting", "run", "x", "--set", f"loop.limits.max_steps={self.planted.keys[3]}")
        self.say("an unknown command", "run", "x", "--resume", self.planted.keys[1])
        self.say("a bug", "run", "x", "--cwd", str(self.work), "--model", "scripted/" + self._raising())
        (self.home / "config.yaml").write_text(json.dumps(config))
        self.say("text", "run", "again", "--output", "text")
        for name, words in {
            "sessions": ("sessions", "--json"),
            "show": ("show", "last", "--full"),
            "show json": ("show", "last", "--json"),
            "as model": ("show", "last", "--as-model", "--json"),
            "trace": ("trace", "last", "--json"),
            "turnwright": ("export", "last", "--format", "turnwright"),
            "ir": ("export", "last", "--format", "ir"),
            "markdown": ("export", "last", "--format", "markdown"),
            "explain": ("config", "explain", "--json"),
            "doctor": ("doctor",),
            "health": ("health", "--json"),
        }.items():
            self.say(name, *words)
        self.say("first turnwright", "export", first, "--format", "turnwright")
        self.say("first markdown", "export", first, "--format", "markdown")
        self.say("kit", "escalate", first, "--to", str(self.home / "kit.zip"))

    def _raising(self) -> str:
        script = self.root / f"{self.planted.keys[2]}.yaml"
        script.write_text("- {calls: [{bash: {command: true}}], expect: {user_contains: 'never said'}}\n")
        return str(script)

    def say(self, name: str, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "turnwright", *words],
            cwd=self.work,
            env={
                **{key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "PYTHONPATH")},
                **self.planted.environ,
                "HOUSE_THING": self.planted.provider["key"],
                "HOME": str(self.root),
                "TURNWRIGHT_HOME": str(self.home),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=300,
            check=False,
        )
        self.streams[f"{name} stdout"] = done.stdout
        self.streams[f"{name} stderr"] = done.stderr

    def places(self) -> Iterator[tuple[str, bytes]]:
        """Everything that was said or written, opened as far as it is packed."""
        for name, said in self.streams.items():
            yield name, said
            if name.startswith("run") and name.endswith("stdout"):
                yield f"{name}, joined", b"".join(_said_live(said))
        for path in sorted(self.home.rglob("*")):
            if path.is_file() and path.name != "config.yaml":  # the user's own file, where the user wrote them
                yield str(path.relative_to(self.home)), path.read_bytes()
                if path.suffix == ".zip":
                    with zipfile.ZipFile(path) as kit:
                        for name in kit.namelist():
                            yield f"{path.name}/{name}", kit.read(name)
        yield from self._blobs()

    def _blobs(self) -> Iterator[tuple[str, bytes]]:
        """The journal keeps payloads compressed: each is exported, and looked into."""
        for name in ("first turnwright stdout", "turnwright stdout"):
            for line in self.streams[name].splitlines():
                for data in _base64_of(json.loads(line)):
                    yield f"{name}, a payload", data
        for path in self.home.rglob("journal*.db"):
            connection = apsw.Connection(
                f"file:{path}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            )
            for table in [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]:
                for row in connection.execute(f'SELECT * FROM "{table}"'):
                    for value in row:
                        if isinstance(value, bytes):
                            yield f"{path.name}: {table}", _opened(value)
            connection.close()

    def found(self) -> tuple[int, list[str]]:
        """How many places were searched, and what was found where."""
        written = [(name, text.encode()) for name, text in self.planted.written()]
        count, found = 0, []
        for place, data in self.places():
            count += 1
            found += [f"{name} in {place}" for name, text in written if text in data]
        return count, found


def _said_live(said: bytes) -> Iterator[bytes]:
    """What was streamed, put together again."""
    for line in said.splitlines():
        event = json.loads(line)
        if event.get("type", "").endswith("-delta") or event.get("type") == "tool-output":
            yield str(event.get("text", event.get("fragment", ""))).encode()


def _base64_of(value: object) -> Iterator[bytes]:
    match value:
        case dict():
            for item in value.values():
                yield from _base64_of(item)
        case list():
            for item in value:
                yield from _base64_of(item)
        case str() if len(value) > 200:
            try:
                yield _opened(base64.b64decode(value, validate=True))
            except ValueError:
                return
        case _:
            return


def _opened(data: bytes) -> bytes:
    """Whatever it is packed with."""
    import zlib

    for wbits in (15, 31, -15):
        try:
            return zlib.decompressobj(wbits).decompress(data)
        except zlib.error:
            continue
    return data


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="turnwright-planted-") as folder:
        session = Session(Path(folder))
        session.run()
        places, found = session.found()
    keys = len(session.planted.keys)
    print(f"{keys} keys in {len(ENCODINGS)} encodings were planted, {places} places were searched.")
    print(f"{len(found)} were found.")
    print("\n".join(found[:40]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
