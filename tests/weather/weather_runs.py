"""Runs of the command line, many at a time, each a process of its own with a folder of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

NURSERY = Path(__file__).with_name("weather_nursery.py")
HANG_S = 120.0
"""What is not over by then hangs: it is killed and said to hang."""

Line = dict[str, Any]


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """A process that is over. `code` is None where it had to be killed."""

    code: int | None
    out: str
    err: str
    took_s: float

    @property
    def lines(self) -> list[Line]:
        """What `--output stream-json` said."""
        return [json.loads(line) for line in self.out.splitlines()]

    def facts(self, kind: str) -> list[Line]:
        return [line for line in self.lines if line.get("type") == kind]


class Place:
    """Home and workspace of some runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.work = root / "work"
        self.home.mkdir(parents=True)
        self.work.mkdir()
        (self.work / "a.txt").write_text("a\n")

    def config(self, settings: Mapping[str, Any], name: str = "config.yaml") -> Path:
        """JSON is YAML too."""
        path = self.root / name
        path.write_text(json.dumps(settings))
        return path

    def env(self, **more: str) -> dict[str, str]:
        return {"TURNWRIGHT_HOME": str(self.home), "TERM": "dumb", **more}


async def cli(place: Place, *words: str, env: Mapping[str, str] | None = None) -> Ran:
    """`python -m turnwright …`, as anybody starts it."""
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "turnwright",
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=place.work,
        env={**os.environ, **place.env(), **(env or {})},
    )
    try:
        async with asyncio.timeout(HANG_S):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        out, err = await process.communicate()
        return Ran(code=None, out=out.decode(), err=err.decode(), took_s=time.monotonic() - began)
    return Ran(code=process.returncode, out=out.decode(), err=err.decode(), took_s=time.monotonic() - began)


class Nursery:
    """Starts runs as forks of one process that has everything imported. Made by `nursery`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._number = 0
        self._pids: dict[int, int] = {}
        self._over: dict[int, asyncio.Future[int]] = {}

    async def run(self, place: Place, *words: str, env: Mapping[str, str] | None = None) -> Ran:
        self._number += 1
        number = self._number
        out, err = place.root / f"{number}.out", place.root / f"{number}.err"
        asked = {
            "number": number,
            "words": [*words],
            "env": {**place.env(), **(env or {})},
            "out": str(out),
            "err": str(err),
        }
        self._over[number] = asyncio.get_running_loop().create_future()
        began = time.monotonic()
        assert self._process.stdin is not None, "it was opened with a pipe"
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        code: int | None = None
        try:
            async with asyncio.timeout(HANG_S):
                code = await self._over[number]
        except TimeoutError:
            os.kill(self._pids[number], signal.SIGKILL)
        took_s = time.monotonic() - began
        ran = Ran(code=code, out=out.read_text(), err=err.read_text(), took_s=took_s)
        out.unlink()
        err.unlink()
        return ran

    async def listen(self) -> None:
        assert self._process.stdout is not None, "it was opened with a pipe"
        async for line in self._process.stdout:
            said = json.loads(line)
            if "pid" in said:
                self._pids[said["number"]] = said["pid"]
            elif not self._over[said["number"]].done():
                self._over[said["number"]].set_result(said["code"])
        for waiting in self._over.values():
            if not waiting.done():
                waiting.set_exception(AssertionError("the nursery has died"))


@asynccontextmanager
async def nursery() -> AsyncIterator[Nursery]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(NURSERY), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    made = Nursery(process)
    listener = asyncio.create_task(made.listen())
    try:
        yield made
    finally:
        assert process.stdin is not None, "it was opened with a pipe"
        process.stdin.close()
        await process.wait()
        listener.cancel()


def run_words(url: str, dialect: str, config: Path, work: Path, *more: str) -> Sequence[str]:
    """A run whose every event is a line."""
    words = ["run", "go", "--model", "m", "--base-url", url, "--dialect", dialect, "--config", str(config)]
    return [*words, "--cwd", str(work), "--no-input", "--output", "stream-json", *more]
