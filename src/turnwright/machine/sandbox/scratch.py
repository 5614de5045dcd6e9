"""Folders for temporary files, one for each machine and gone with it. What a killed process left, the next removes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from turnwright.machine.beneath import OPEN_FOLDER

_ours: set[str] = set()
"""Those of this process: there may be hundreds, and each new one need not try the locks of all the others."""


class Scratch:
    """One of them, held by a lock that the kernel lets go with us."""

    def __init__(self, parent: Path) -> None:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        parent = parent.resolve()
        for name in os.listdir(parent):  # noqa: PTH208 - as text, before a path is made of it
            if f"{parent}/{name}" not in _ours:
                _remove_if_left(parent / name)
        self.path = Path(tempfile.mkdtemp(dir=parent))
        self._fd = os.open(self.path, OPEN_FOLDER)
        fcntl.flock(self._fd, fcntl.LOCK_SH)
        _ours.add(str(self.path))

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        _ours.discard(str(self.path))
        os.close(self._fd)


def _remove_if_left(path: Path) -> None:
    with contextlib.suppress(OSError):  # held, or another process is just as tidy
        fd = os.open(path, OPEN_FOLDER | os.O_NOFOLLOW)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(fd)
