"""An undo that is killed at every act on the disk, and the next one that finishes it.

usage: python killed_undo.py PLACE COUNT: a child of this process for each of COUNT acts, evenly spread; prints how many
were tried. PLACE holds `work` and `home` after a session whose last steps are to be undone, and `wanted.txt`.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from undo_place import state_of

from turnwright.cli.main import main

ACTS = ("replace", "unlink", "rmdir", "mkdir", "symlink", "fchmod", "open", "fsync", "write")
"""Of `os`: what an undo does to the workspace and to its own note of it."""

STRIDE = 40


def digest_of(work: Path) -> str:
    return hashlib.sha256(repr(sorted(state_of(work).items())).encode()).hexdigest()


def die_at(number: int) -> None:
    """Just before the act of that number."""
    left = number

    def counted(act: Callable[..., Any]) -> Callable[..., Any]:
        def once(*args: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return act(*args, **named)

        return once

    for name in ACTS:
        setattr(os, name, counted(getattr(os, name)))


def told(*words: str) -> int:
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    return main(list(words))


def in_a_child(act: Callable[[], int]) -> int:
    """What became of it, as `os.wait` says."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = act()
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def killed(number: int, point: str) -> Callable[[], int]:
    def act() -> int:
        die_at(number)
        return told("undo", point)

    return act


def restore(place: Path) -> None:
    for name in ("work", "home"):
        shutil.rmtree(place / name, ignore_errors=True)
        shutil.copytree(place / "kept" / name, place / name, symlinks=True)
    os.chdir(place / "work")


def tried(place: Path, point: str, number: int, wanted: str) -> bool:
    """Whether it was killed at all; what is left is judged here."""
    restore(place)
    status = in_a_child(killed(number, point))
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0, f"undo itself failed with {os.WEXITSTATUS(status)}"
        assert digest_of(place / "work") == wanted
        return False
    begun = (place / "work").exists() and any((place / "home" / "data" / "versions").glob("undo-" + "?" * 24))
    if begun:
        refused = in_a_child(lambda: told("run", "task", "--model", "demo"))
        assert os.WEXITSTATUS(refused) == 42, f"act {number}: a turn may begin in a folder that is half put back"
    else:
        untouched = digest_of(place / "work") in (digest_of(place / "kept" / "work"), wanted)
        assert untouched, f"act {number}: something was done, and nothing says so"
    if begun or digest_of(place / "work") != wanted:
        status = in_a_child(lambda: told("undo", point))
        assert os.WEXITSTATUS(status) == 0, f"act {number}: it could not be finished"
    assert digest_of(place / "work") == wanted, f"act {number}: not as it was"
    return True


def run(place: Path, point: str, count: int) -> int:
    (place / "kept").mkdir()
    for name in ("work", "home"):
        shutil.copytree(place / name, place / "kept" / name, symlinks=True)
    os.environ["TURNWRIGHT_HOME"] = str(place / "home")
    wanted = (place / "wanted.txt").read_text()
    acts = 0
    while tried(place, point, acts, wanted):
        acts += STRIDE
    most = acts
    numbers = sorted({most * each // count for each in range(count)})
    return sum(tried(place, point, number, wanted) for number in numbers) + most // STRIDE


if __name__ == "__main__":
    print(run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
