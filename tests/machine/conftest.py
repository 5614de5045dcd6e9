from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from sandbox_ground import Ground, ground_of

from turnwright.machine.keeper import Keeper
from turnwright.machine.local import LocalMachine, open_local
from turnwright.machine.warden import process_table

ENV = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
async def machine(workspace: Path, tmp_path: Path) -> AsyncIterator[LocalMachine]:
    keeper = Keeper()
    machine = open_local(workspace, keeper=keeper, env=ENV, spool=tmp_path / "spool")
    yield machine
    await machine.close()
    await keeper.close()


@pytest.fixture
def running() -> Callable[[str], list[str]]:
    """Command lines of the living processes that have a marker in their arguments."""

    def find(marker: str) -> list[str]:
        found = []
        for pid, _ in process_table():
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if marker in line and pid != os.getpid():
                found.append(line)
        return found

    return find


@pytest.fixture
def gone_within(running: Callable[[str], list[str]]) -> Callable[[str, float], bool]:
    def wait(marker: str, limit_s: float) -> bool:
        end = time.monotonic() + limit_s
        while running(marker):
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    return wait


@pytest.fixture(params=["namespaces", "kernel-lite"])
async def ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    async for made in ground_of(request.param, tmp_path):
        yield made


@pytest.fixture
async def namespaces(tmp_path: Path) -> AsyncIterator[Ground]:
    async for made in ground_of("namespaces", tmp_path):
        yield made
