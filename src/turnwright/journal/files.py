"""The files of a journal: made where there are none, and opened for the one who writes."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import NamedTuple

import apsw

from turnwright.journal.database import LOG, create, explained, open_writer, sync_folder
from turnwright.journal.losses import note_losses
from turnwright.journal.marks import MARK, Marks


class Files(NamedTuple):
    connection: apsw.Connection
    marks: Marks


def open_files(path: Path, now_ms: int) -> Files:
    """The writer's own. Raises JournalError with the path and a remedy."""
    with explained(path):
        _prepare_folder(path.parent)
        marks = Marks(path.with_name(MARK))
        try:
            # Whoever comes second waits here until the database is whole.
            fcntl.flock(marks, fcntl.LOCK_EX)
            if not path.exists():
                create(path, now_ms)
            if not has_content(path.with_name(LOG)):
                marks.checkpoint(running=False)
            fcntl.flock(marks, fcntl.LOCK_UN)
            connection = open_writer(path, now_ms)
            note_losses(connection, marks, now_ms)
        except BaseException:
            marks.close()
            raise
    return Files(connection, marks)


def has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def _prepare_folder(folder: Path) -> None:
    """For this user's eyes only: what models and tools said may be private."""
    if not folder.is_dir():
        folder.mkdir(parents=True, mode=0o700)
        sync_folder(folder.parent)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
