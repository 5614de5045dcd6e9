"""What many turns in one process leave behind, by the program that also soaks for ten thousand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform != "linux", reason="counts what /proc tells")
def test_nothing_is_left_behind_by_many_turns() -> None:
    command = [sys.executable, "-m", "bench.soak", "--turns", "1200"]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=280, check=False
    )
    print(done.stdout)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
