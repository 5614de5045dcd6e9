"""Hosts, followers and whoever speaks to them, each a process of its own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any
from unittest import mock

from turnwright.cli.main import main

LIMIT_S = 30.0
TURNWRIGHT = (sys.executable, "-m", "turnwright")


def wait_for(what: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    end = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def lives(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


class Follower:
    """`turnwright follow --json`, into a file."""

    def __init__(self, place: Place, conversation_id: str, *words: str) -> None:
        self._out = place.root / f"follower-{len(place.followers)}"
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(
                [*TURNWRIGHT, "follow", conversation_id, "--json", *words],
                cwd=place.work,
                env=place.environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        place.followers.append(self.process)

    @property
    def lines(self) -> list[dict[str, Any]]:
        content = self._out.read_bytes()
        return [json.loads(line) for line in content[: content.rfind(b"\n") + 1].splitlines()]

    @property
    def facts(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if "seq" in line]

    @property
    def kinds(self) -> list[str]:
        return [line["type"] for line in self.lines]

    def live_text(self, kind: str = "text-delta") -> str:
        return "".join(line["text"] for line in self.lines if line["type"] == kind)

    def has(self, kind: str) -> bool:
        return kind in self.kinds


class Place:
    """A workspace, a home, and a gate in the workspace that commands of a script wait at."""

    def __init__(self, root: Path, home: Path | None = None) -> None:
        self.root = root
        self.work = root / "work"
        self.home = home or root / "home"
        self.work.mkdir()
        self.gate = self.work / "gate"
        self.hosts: list[int] = []
        self.followers: list[subprocess.Popen[bytes]] = []
        self.environ = {**os.environ, "TURNWRIGHT_HOME": str(self.home)}

    @property
    def waits(self) -> dict[str, Any]:
        """A call that ends when the gate opens."""
        return {"bash": {"command": f"while [ ! -e {self.gate} ]; do sleep 0.02; done; echo through"}}

    def open_gate(self) -> None:
        self.gate.touch()

    def model(self, steps: Sequence[dict[str, Any]]) -> str:
        script = self.root / "script.json"
        script.write_text(json.dumps({"follow": "history", "steps": list(steps)}))
        return f"scripted/{script}"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*TURNWRIGHT, *words],
            cwd=self.work,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def told(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The same in this process, which is far quicker: for what only speaks to hosts, or looks at the journal."""
        raw_out, raw_err = io.BytesIO(), io.BytesIO()
        out, err = (io.TextIOWrapper(raw, encoding="utf-8", write_through=True) for raw in (raw_out, raw_err))
        with (
            mock.patch.dict(os.environ, self.environ, clear=True),
            mock.patch.multiple(sys, stdout=out, stderr=err, stdin=io.StringIO()),
            chdir(self.work),
        ):
            code = main(list(words))
        return subprocess.CompletedProcess(words, code, raw_out.getvalue().decode(), raw_err.getvalue().decode())

    def host(self, steps: Sequence[dict[str, Any]], *words: str) -> Host:
        """`run --detach`."""
        begun = self.run("run", "do it", "--model", self.model(steps), "--detach", "--output", "json", *words)
        assert begun.returncode == 0, begun.stderr
        return self.noted(begun.stdout)

    def resumed(self, conversation_id: str) -> Host:
        begun = self.run("resume", conversation_id, "--continue", "--detach", "--output", "json")
        assert begun.returncode == 0, begun.stderr
        return self.noted(begun.stdout)

    def noted(self, said: str) -> Host:
        host = Host(**json.loads(said))
        self.hosts.append(host.pid)
        return host

    def facts(self, conversation_id: str) -> list[dict[str, Any]]:
        shown = self.told("show", conversation_id, "--json")
        return [json.loads(line) for line in shown.stdout.splitlines()]

    @property
    def sockets(self) -> list[str]:
        return sorted(path.name for path in (self.home / "data" / "hosts").glob("*"))

    def clear(self) -> None:
        for process in self.followers:
            process.kill()
            process.wait(LIMIT_S)
        for pid in self.hosts:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Host:
    """What `--detach` says."""

    def __init__(self, conversation_id: str, pid: int, log: str, type: str) -> None:  # noqa: A002 - the line's own
        assert type == "detached"
        self.id = conversation_id
        self.pid = pid
        self.log = Path(log)

    def ended(self) -> None:
        wait_for(lambda: not lives(self.pid))
