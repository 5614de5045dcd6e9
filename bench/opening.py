"""How long it takes to see something of a long conversation, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench import cold, long

SCREEN_LINES = 24


def fastest(words: Sequence[str], facts: int, repeats: int) -> tuple[float, float]:
    """Milliseconds to a screen of output, or to its end where that is less, and the most memory in MiB of all runs."""
    with tempfile.TemporaryDirectory(prefix="turnwright-bench-home-") as folder:
        environment = cold.environment(Path(folder))
        asyncio.run(long.write(Path(environment["TURNWRIGHT_HOME"]) / "data" / "journal", facts))
        runs = [_run(words, environment) for _ in range(repeats + 1)]
    return min(took for took, _ in runs), max(mib for _, mib in runs)


def _run(words: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    began = time.perf_counter()
    with subprocess.Popen([*cold.TURNWRIGHT, *words], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for number, _ in enumerate(process.stdout, 1):
            if number == SCREEN_LINES:
                break
        took = time.perf_counter() - began
        for _ in process.stdout:
            pass
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return took * 1000, used.ru_maxrss / 1024
