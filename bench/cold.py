"""From nothing to something: whole processes, as a shell starts them. Compiled modules are there, files are warm."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

TURNWRIGHT = [sys.executable, "-c", "import sys; from turnwright.cli.main import main; sys.exit(main())"]
SCRIPT = """
import json, sys, urllib.request
body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()
urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/chat/completions", body)).read()
"""
URLLIB = [sys.executable, "-c", SCRIPT]


def environment(home: Path) -> dict[str, str]:
    """Ours alone: no configuration of the user, no proxies, and compiled modules are kept."""
    dropped = ("PYTHONDONTWRITEBYTECODE", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    kept = {name: value for name, value in os.environ.items() if name not in dropped and "TURNWRIGHT" not in name}
    return {**kept, "TURNWRIGHT_HOME": str(home)}


def fastest_ms(repeats: int, *cases: Callable[[], float]) -> list[float]:
    """The least of each, their turns interleaved."""
    times = [[case() for case in cases] for _ in range(repeats)]
    return [min(column) for column in zip(*times, strict=True)]


def to_the_end(*command: str) -> Callable[[], float]:
    def once() -> float:
        with tempfile.TemporaryDirectory() as home:
            began = time.perf_counter()
            subprocess.run(command, env=environment(Path(home)), stdout=subprocess.DEVNULL, check=True)
            return (time.perf_counter() - began) * 1000

    return once


def to_the_first_request(command: Callable[[str], Sequence[str]]) -> Callable[[], float]:
    """Until its first bytes arrive at the server whose base URL `command` is given. Then it is killed."""

    def once() -> float:
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as server:
            workspace, home = Path(folder) / "workspace", Path(folder) / "home"
            workspace.mkdir()
            words = command(f"http://127.0.0.1:{server.getsockname()[1]}/v1")
            server.settimeout(30)
            began = time.perf_counter()
            silent = subprocess.DEVNULL
            process = subprocess.Popen(words, env=environment(home), cwd=workspace, stdout=silent, stderr=silent)
            try:
                connection, _ = server.accept()
                connection.settimeout(30)
                assert connection.recv(65_536), "it hung up without asking for anything"
                took_ms = (time.perf_counter() - began) * 1000
            finally:
                process.kill()
                process.wait()
            connection.close()
            return took_ms

    return once


def run_command(base_url: str) -> Sequence[str]:
    options = ["--base-url", base_url, "--dialect", "openai-chat", "--model", "m", "--output", "stream-json"]
    return [*TURNWRIGHT, "run", "say hello", *options]
