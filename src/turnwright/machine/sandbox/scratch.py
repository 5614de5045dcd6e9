"""Folders for temporary files, one for each machine and gone with it. What a killed process left, the next removes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from turnwright.machine.beneath import OPEN_FOLDER


class Scratch:
    """One of them, held by a lock that the kernel lets go with us."""

    def __init__(self, parent: Path) -> None:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in parent.iterdir():
            _remove_if_left(left)
        self.path = Path(tempfile.mkdtemp(dir=parent)).resolve()
        self._fd = os.open(self.path, OPEN_FOLDER)
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._fd)


def _remove_if_left(path: Path) -> None:
    with contextlib.suppress(OSError):  # held, or another process is just as tidy
        fd = os.open(path, OPEN_FOLDER | os.O_NOFOLLOW)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(fd)
