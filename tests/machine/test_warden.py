"""The ways of the warden that this platform does not take by itself."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from turnwright.machine import warden
from turnwright.machine.keeper import Keeper
from turnwright.machine.local import LocalMachine, open_local
from turnwright.machine.port import Command, run

SLEEP = f"sleep {10_000 + os.getpid()}"
"""Told from the sleeps of other tests."""

pytestmark = pytest.mark.skipif(not Path("/bin/ps").exists() and not Path("/usr/bin/ps").exists(), reason="no ps")

ELSEWHERE = """
import os, runpy, sys
sys.platform = "darwin"                       # no subreaper, no posix_spawn with a session
really = os.path.exists
os.path.exists = lambda path: not str(path).startswith("/proc") and really(path)
sys.argv[1:] = sys.argv[2:]
runpy.run_path({script!r}, run_name="__main__")
"""


@pytest.fixture
async def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalMachine]:
    """A machine whose keeper believes that it runs on macOS."""
    script = tmp_path / "elsewhere.py"
    script.write_text(ELSEWHERE.format(script=str(Path(warden.__file__))))
    real = subprocess.Popen

    def popen(argv: list[str], **options: Any) -> subprocess.Popen[bytes]:
        return real([*argv[:3], str(script), *argv[3:]], **options)

    monkeypatch.setattr("turnwright.machine.keeper.subprocess.Popen", popen)
    (tmp_path / "workspace").mkdir()
    keeper = Keeper()
    env = {"PATH": os.environ["PATH"]}
    machine = open_local(tmp_path / "workspace", keeper=keeper, env=env, spool=tmp_path / "spool")
    yield machine
    await machine.close()
    await keeper.close()


def test_both_process_tables_agree() -> None:
    others = warden.descendants({os.getpid()})  # what an earlier test of this process keeps, like a fork server
    children = [subprocess.Popen(["sleep", "100"]) for _ in range(3)]
    try:
        expected = {(child.pid, os.getpid()) for child in children}
        assert expected <= set(warden.process_table())
        assert expected <= set(warden.process_table_by_ps())
        assert warden.descendants({os.getpid()}, others) == {child.pid for child in children}
        assert warden.descendants({os.getpid()}, {*others, children[0].pid}) == {child.pid for child in children[1:]}
    finally:
        for child in children:
            child.kill()
            child.wait()


async def test_commands_without_subreaper_and_proc(elsewhere: LocalMachine) -> None:
    for _ in range(2):
        finished = await run(elsewhere, Command(argv=("bash", "-c", "echo out; exit 3")))
        assert (finished.how, finished.exit_code, finished.stdout.head) == ("exited", 3, b"out\n")
    with pytest.raises(FileNotFoundError):
        await run(elsewhere, Command(argv=("no-such-program-here",)))


FAMILIES = [SLEEP, f"{SLEEP} & wait", f"setsid -w {SLEEP}", f"({SLEEP} &); sleep 5"]


@pytest.mark.parametrize("text", FAMILIES, ids=["alone", "behind", "own session", "orphan"])
async def test_stop_without_subreaper_and_proc(elsewhere: LocalMachine, text: str) -> None:
    process = await elsewhere.spawn(Command(argv=("bash", "-c", f"{text}; true")))
    await asyncio.sleep(0.2)
    begun = time.monotonic()
    finished = await process.stop()
    assert time.monotonic() - begun < 1
    assert finished.how in ("stopped", "exited")
    assert SLEEP not in subprocess.run(["ps", "-A", "-o", "args="], capture_output=True, text=True).stdout


async def test_a_group_that_outlives_its_leader_is_swept(elsewhere: LocalMachine) -> None:
    finished = await run(elsewhere, Command(argv=("bash", "-c", f"{SLEEP} >/dev/null 2>&1 & echo out")))
    assert (finished.how, finished.exit_code, finished.stdout.head) == ("exited", 0, b"out\n")
    assert finished.left_behind == 1
    assert SLEEP not in subprocess.run(["ps", "-A", "-o", "args="], capture_output=True, text=True).stdout


def test_start_by_fork_reports_why_it_could_not() -> None:
    """In a process of its own, since forking one with threads is unsafe."""
    program = (
        "from turnwright.machine.warden import start_by_fork\n"
        "try: start_by_fork([b'/no/such'], {}, 1, 2)\n"
        "except OSError as failed: print(type(failed).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "FileNotFoundError\n"
