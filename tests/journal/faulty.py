"""A disk that fails on request: a layer beneath SQLite's checksums and the mark. Run as `python faulty.py FOLDER STEP`.

For every call that changes the disk, one run of a small story in which it fails, with no space, with an I/O error and
with a disk that became read-only. What was acknowledged must be there afterwards, what failed must have failed by name,
and once the disk is well the journal must go on.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
from children import ONE, RealTime, note

from turnwright.journal import marks, writer
from turnwright.journal.records import Lease
from turnwright.journal.sqlite import SqliteJournal
from turnwright.journal.verify import verify
from turnwright.schema.errors import JournalUnwritable


class Disk:
    """Fails from the `fail_at`th call on, until it is well again."""

    fail_at: int | None = None
    calls = 0
    error = "IOERR_WRITE"

    @classmethod
    def fails(cls) -> bool:
        cls.calls += 1
        return cls.fail_at is not None and cls.calls >= cls.fail_at

    @classmethod
    def call(cls) -> None:
        if cls.fails():
            raise apsw.exception_for(getattr(apsw, f"SQLITE_{cls.error}"))


ERRORS = {"IOERR_WRITE": errno.EIO, "IOERR_FSYNC": errno.EIO, "FULL": errno.ENOSPC, "READONLY": errno.EROFS}
"""What SQLite is told, and what the mark's own calls are told."""


class FaultySystem:
    """`os` as the file of marks sees it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @staticmethod
    def _call(path: str = "the mark") -> None:
        if Disk.fails():
            number = ERRORS[Disk.error]
            raise OSError(number, os.strerror(number), path)

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        self._call(str(path))
        return os.open(path, flags, mode)

    def truncate(self, path: Path, length: int) -> None:
        self._call(str(path))
        os.truncate(path, length)

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        self._call()
        return os.pwrite(descriptor, data, offset)

    def fsync(self, descriptor: int) -> None:
        self._call()
        os.fsync(descriptor)


class FaultyFile(apsw.VFSFile):
    def xWrite(self, data: bytes, offset: int) -> None:
        Disk.call()
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        Disk.call()
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:
        Disk.call()
        super().xTruncate(size)


class FaultyDisk(apsw.VFS):
    def __init__(self) -> None:
        super().__init__("faulty", "unix", makedefault=True)

    def xDelete(self, name: str, sync: bool) -> None:
        Disk.call()
        super().xDelete(name, sync)

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> FaultyFile:
        Disk.call()
        return FaultyFile("unix", name, flags)


async def story(folder: Path) -> tuple[int, str]:
    """The last seq acknowledged, and the first error. The disk is healed after that error."""
    acknowledged, error = 0, ""
    journal: SqliteJournal | None = None
    lease: Lease | None = None
    seqs: list[int] | None = None
    rounds = 0
    while rounds < 30 or seqs is None:
        rounds += 1
        try:
            journal = journal or await SqliteJournal.open(folder, clock=RealTime())
            if rounds <= 30:
                lease = lease or await journal.acquire(ONE, create=True)
                acknowledged = max(acknowledged, *await journal.append(lease, [note("x" * 3_000)] * 2))
            else:
                seqs = [each.seq for each in await journal.since(ONE)]
        except JournalUnwritable as failed:
            assert not error, f"after the disk was well again: {failed}"
            assert str(folder) in str(failed) and failed.remedy, failed
            error, Disk.fail_at = type(failed).__name__, None
    assert journal is not None
    assert seqs[:acknowledged] == list(range(1, acknowledged + 1))
    with suppress(JournalUnwritable):
        await journal.close()
    return acknowledged, error


async def main(root: Path, step: int) -> None:
    disk = FaultyDisk()
    setattr(marks, "os", FaultySystem())  # noqa: B010 - not what the module exports
    writer.CHECKPOINT_FRAMES = 30
    await story(root / "well")
    calls, tried, failed = Disk.calls, 0, 0
    for error in ERRORS:
        for number in range(1, calls + 1, step):
            folder = root / f"{error}-{number}"
            Disk.calls, Disk.fail_at, Disk.error = 0, number, error
            acknowledged, name = await story(folder)
            Disk.fail_at = None
            tried, failed = tried + 1, failed + bool(name)
            report = verify(folder)
            assert report.findings == (), (folder, report.findings)
            assert report.facts >= acknowledged, (folder, report.facts, acknowledged)
    print(f"{calls} calls, {tried} faults tried, {failed} seen by a caller")
    disk.unregister()


if __name__ == "__main__":
    warnings.simplefilter("error")
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
