"""A package with a guard, as a wheel, installed as any other is."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

MODULE = '''
from collections.abc import Sequence

from turnwright.kernel.guards.kind import Kind
from turnwright.kernel.ports import Halt, Judgement
from turnwright.schema.facts import Fact, ToolEnded
from turnwright.schema.guards import GuardSettings


class Settings(GuardSettings, frozen=True, kw_only=True):
    at: int = 2


class Counting:
    """Ends a turn at its so many results; breaks at none."""

    def __init__(self, settings: Settings) -> None:
        self._left = settings.at

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        self._left -= 1
        if self._left == -1:
            raise ValueError("this guard is broken")
        return [Halt(guard="counting", why="it was enough")] if self._left == 0 else ()


KIND = Kind(
    name="counting",
    watches="how many results there are",
    verdicts=("stop",),
    reasons=("guard-stop",),
    settings=Settings,
    sees=(ToolEnded,),
    make=Counting,
)
NO_GUARD = "something else"
'''
ENTRY_POINTS = """
[turnwright.guards]
counting = counting_guard:KIND
no_guard = counting_guard:NO_GUARD
"""
METADATA = "Metadata-Version: 2.1\nName: counting-guard\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def installed_in(folder: Path) -> Path:
    """By pip where there is one, else as pip does it: a wheel is an archive of what it installs."""
    wheel = folder / "counting_guard-1.0-py3-none-any.whl"
    info = "counting_guard-1.0.dist-info"
    files = {
        "counting_guard.py": MODULE,
        f"{info}/METADATA": METADATA,
        f"{info}/WHEEL": WHEEL,
        f"{info}/entry_points.txt": ENTRY_POINTS,
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    site = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(site)]
    done = subprocess.run([*pip, str(wheel)], capture_output=True, check=False)
    if done.returncode:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    return site
