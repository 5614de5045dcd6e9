"""Saving a large workspace beside a turn, and taking a step back in it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

from bench import cold
from turnwright.app.versions import WorkspaceVersions
from turnwright.kernel.ports import Saved
from turnwright.schema.settings import VersionSettings

FOLDERS = 1_000
CHANGED = 10

SCRIPT = """{"follow": "history", "steps": [
  {"calls": [{"bash": {"command": "for i in 1 2 3 4 5 6 7 8 9 10; do echo changed > folder-$i/file-0.py; done"}}]},
  {"text": "done"}
]}"""


def fill(work: Path, files: int) -> None:
    for folder in range(FOLDERS):
        (work / f"folder-{folder}").mkdir(parents=True)
        for file in range(files // FOLDERS):
            (work / f"folder-{folder}" / f"file-{file}.py").write_text(f"{folder} = {file}\n" * 10)


def saved_ms(root: Path, files: int, repeats: int) -> tuple[float, float, float]:
    """The first save, one of `CHANGED` files, and what beginning it costs the turn; the best of each."""
    work = root / "work"
    fill(work, files)
    return asyncio.run(_saved_ms(work, root / "data", repeats))


async def _saved_ms(work: Path, data: Path, repeats: int) -> tuple[float, float, float]:
    versions = WorkspaceVersions(work, data, VersionSettings(patience_s=600), lambda: time.time_ns() // 1_000_000)
    try:
        first, _ = await _timed_ms(versions)
        await asyncio.sleep(0.2)  # what was touched just now is read once more
        await _timed_ms(versions)
        best, begun = float("inf"), float("inf")
        for number in range(repeats):
            for folder in range(CHANGED):
                (work / f"folder-{folder}" / "file-0.py").write_text(f"changed {number}\n")
            await asyncio.sleep(0.2)
            took, beginning = await _timed_ms(versions)
            best, begun = min(best, took), min(begun, beginning)
        return first, best, begun
    finally:
        await versions.close()


async def _timed_ms(versions: WorkspaceVersions) -> tuple[float, float]:
    start = time.perf_counter()
    versions.begin()
    begun = time.perf_counter()
    assert isinstance(await versions.settled(), Saved)
    return (time.perf_counter() - start) * 1000, (begun - start) * 1000


def looked_ms(work: Path, repeats: int) -> float:
    """Asking the system about every file, and nothing else."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        for folder in os.scandir(work):
            with os.scandir(folder) as files:
                for file in files:
                    file.stat(follow_symlinks=False)
        best = min(best, (time.perf_counter() - start) * 1000)
    return best


def undone_ms(root: Path, repeats: int) -> float:
    """`turnwright undo` as a process, in the workspace that was saved before."""
    (root / "script.json").write_text(SCRIPT)
    config = root / "config.yaml"
    config.write_text("permissions: {autonomy: 4}\n" if _permissions() else "{}\n")
    base = [sys.executable, "-m", "turnwright"]
    environ = cold.environment(root / "home")
    best = float("inf")
    for _ in range(repeats):
        _must(
            [*base, "run", "x", "--model", f"scripted/{root / 'script.json'}", "--config", str(config)], root, environ
        )
        start = time.perf_counter()
        _must([*base, "undo"], root, environ)
        best = min(best, (time.perf_counter() - start) * 1000)
    return best


def _permissions() -> bool:
    from turnwright.schema.settings import Settings

    return "permissions" in Settings.__struct_fields__


def _must(command: list[str], root: Path, environ: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=root / "work", env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[2:])} failed with {done.returncode}:\n{done.stderr}{os.linesep}")
