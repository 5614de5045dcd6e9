from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from turnwright.machine.keeper import Keeper
from turnwright.machine.talking import Talk, start_talking

ENV = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "WORD": "blue"}
MARK = f"{20_000 + os.getpid()}"


@pytest.fixture
async def keeper() -> AsyncIterator[Keeper]:
    keeper = Keeper()
    yield keeper
    await keeper.close()


async def _answered(talk: Talk, line: bytes) -> bytes:
    os.write(talk.stdin_fd, line)
    return await asyncio.to_thread(os.read, talk.stdout_fd, 100)


def _hang_up(talk: Talk) -> None:
    os.close(talk.stdin_fd)
    os.close(talk.stdout_fd)


async def test_what_is_said_is_answered_in_the_folder_and_environment_given(keeper: Keeper, tmp_path: Path) -> None:
    script = 'echo ready >&2; while read line; do echo "$line $WORD $PWD"; done; echo bye >&2'
    talk = await start_talking(keeper, ["sh", "-c", script], ENV, str(tmp_path))
    assert await _answered(talk, b"one\n") == f"one blue {tmp_path}\n".encode()
    assert await _answered(talk, b"two\n") == f"two blue {tmp_path}\n".encode()
    _hang_up(talk)
    finished = await talk.process.wait()
    assert (finished.how, finished.exit_code, talk.said()) == ("exited", 0, "ready\nbye\n")


async def test_stopping_leaves_nothing_behind(
    keeper: Keeper, tmp_path: Path, gone_within: Callable[[str, float], bool]
) -> None:
    script = f"trap '' TERM; setsid sleep {MARK} & echo up; cat >/dev/null; sleep {MARK}"
    talk = await start_talking(keeper, ["sh", "-c", script], ENV, str(tmp_path))
    assert await _answered(talk, b"") == b"up\n"
    await talk.process.stop()
    assert gone_within(MARK, 0.1)
    _hang_up(talk)


async def test_a_flood_on_stderr_is_kept_to_its_end(keeper: Keeper, tmp_path: Path) -> None:
    script = "head -c 5000000 /dev/zero | tr '\\0' x >&2; echo the end >&2"
    talk = await start_talking(keeper, ["sh", "-c", script], ENV, str(tmp_path))
    await talk.process.wait()
    said = talk.said()
    assert len(said) <= 8_000
    assert said.endswith("xthe end\n")
    _hang_up(talk)


async def test_what_cannot_be_started_costs_no_descriptor(keeper: Keeper, tmp_path: Path) -> None:
    talk = await start_talking(keeper, ["true"], ENV, str(tmp_path))
    await talk.process.wait()
    _hang_up(talk)
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for argv, folder in ((["/no/such/program"], str(tmp_path)), (["true"], str(tmp_path / "none"))):
        with pytest.raises(FileNotFoundError):
            await start_talking(keeper, argv, ENV, folder)
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before
