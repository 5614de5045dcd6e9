"""kill -9 of a turn in the middle of its work: nothing that it started is there a second later (W5)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from host_place import TURNWRIGHT, Place, wait_for
from undo_place import PERMITTED

from turnwright.machine.warden import process_table

LEFT_S = 1.0
SLEEPER = "bash -c 'exec -a {mark} sleep 100'"
COMMANDS = {
    "plain": f"{SLEEPER}",
    "session": f"setsid {SLEEPER}; sleep 100",
    "session that holds the pipe": f"setsid -f {SLEEPER}; sleep 100",
    "double fork": f"( ( setsid {SLEEPER} & ) & ); sleep 100",
    "nohup": f"nohup {SLEEPER} >/dev/null 2>&1 & sleep 100",
    "clean environment": f"env -i setsid -f {SLEEPER}; sleep 100",
    "deaf": "trap '' TERM INT HUP; bash -c 'trap \"\" TERM INT HUP; exec -a {mark} sleep 100'; sleep 100",
    "stopped": f"{SLEEPER} & kill -STOP $!; wait",
    "own group": f"set -m; {SLEEPER} & wait",
    "family": f"for i in 1 2 3; do (setsid {SLEEPER} & sleep 100) & done; wait",
}
"""Over and over until there are seventeen, the most that a conversation runs at once: sixteen in the background, and
one that the turn waits for. (Twenty at once, below the tools: tests/machine/test_processes.py.)"""
BACKGROUND = 16

SERVER = """
import subprocess, sys
from mcp.server import MCPServer

subprocess.Popen(["setsid", "bash", "-c", f"exec -a {sys.argv[1]} sleep 100"])
server = MCPServer("server", version="1.0")

@server.tool()
def nothing() -> str:
    \"\"\"Does nothing.\"\"\"
    return "nothing"

server.run("stdio")
"""


class Turn:
    """Seventeen commands under way, and as many servers as are asked for, in a process of its own."""

    def __init__(self, root: Path, servers: int) -> None:
        self.mark = f"tw-{uuid.uuid4().hex}"
        self.place = Place(root)
        said = [text.replace("{mark}", self.mark) for text in COMMANDS.values()] * 2
        steps: list[dict[str, Any]] = [
            {"calls": [{"bash": {"command": each, "background": True}} for each in said[:BACKGROUND]]},
            {"calls": [{"bash": {"command": said[BACKGROUND]}}]},
        ]
        script = root / "server.py"
        script.write_text(SERVER)
        server = {"command": sys.executable, "args": [str(script), self.mark]}
        config: dict[str, Any] = {**PERMITTED}
        if servers:
            config["mcp"] = {"servers": {f"server-{number}": server for number in range(servers)}}
        self.place.home.mkdir()
        (self.place.home / "config.yaml").write_text(json.dumps(config))
        self.servers = servers
        self.process = subprocess.Popen(
            [*TURNWRIGHT, "run", "work", "--model", self.place.model(steps), "--output", "stream-json"],
            cwd=self.place.work,
            env=self.place.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def under_way(self) -> bool:
        assert self.process.poll() is None, "the turn ended"
        marked = [line for line in self.command_lines().values() if line.startswith(self.mark)]
        return len(marked) > BACKGROUND + self.servers

    def command_lines(self) -> dict[int, str]:
        found = {}
        for pid, _ in process_table():
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if self.mark in line:
                found[pid] = line
        return found

    def below(self) -> set[int]:
        """The runtime and all that descends from it now: keeper, wardens, commands, servers."""
        parents = dict(process_table())
        found, grown = {self.process.pid}, True
        while grown:
            more = {pid for pid, parent in parents.items() if parent in found} - found
            found |= more
            grown = bool(more)
        return found

    def left(self, below: set[int]) -> set[int]:
        return (below | self.command_lines().keys()) & {pid for pid, _ in process_table()}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(("servers", "whom"), [(0, "process"), (5, "group")])
def test_kill_9_of_a_turn_leaves_nothing(tmp_path: Path, servers: int, whom: str) -> None:
    if servers and find_spec("mcp") is None:
        pytest.skip("the extra turnwright[mcp] is not installed")
    turn = Turn(tmp_path, servers)
    try:
        wait_for(turn.under_way)
        below = turn.below()
        started = time.monotonic()
        if whom == "process":
            turn.process.kill()
        else:
            os.killpg(turn.process.pid, signal.SIGKILL)
        turn.process.wait()
        while (left := turn.left(below)) and time.monotonic() - started < LEFT_S * _patience():
            time.sleep(0.02)
        took_s = time.monotonic() - started
        assert not left, f"after {took_s:.1f} s these are still there: {turn.command_lines()}"
        print(f"{len(below)} processes with {servers} servers were gone {took_s:.2f} s after kill -9 of the {whom}")
    finally:
        turn.process.kill()
        turn.process.wait()


def _patience() -> float:
    """A second on a machine that has a core to spare; where others wait for it too, as much more as they are."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
