"""A disk that fails on request: a layer beneath SQLite's checksums. Run as `python faulty.py FOLDER STEP`.

For every call that may fail, one run of a small story in which it does. What was acknowledged must be there afterwards,
what failed must have failed by name, and once the disk is well the journal must go on.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import apsw
from children import ONE, RealTime, note

from turnwright.journal import writer
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
    def call(cls) -> None:
        cls.calls += 1
        if cls.fail_at is not None and cls.calls >= cls.fail_at:
            raise apsw.exception_for(getattr(apsw, f"SQLITE_{cls.error}"))


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

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> FaultyFile:
        return FaultyFile("unix", name, flags)


async def story(folder: Path) -> tuple[int, str]:
    """The last seq acknowledged, and the first error. The disk is healed after that error."""
    acknowledged, error = 0, ""
    journal: SqliteJournal | None = None
    lease: Lease | None = None
    for _ in range(30):
        try:
            journal = journal or await SqliteJournal.open(folder, clock=RealTime())
            lease = lease or await journal.acquire(ONE, create=True)
            acknowledged = max(acknowledged, *await journal.append(lease, [note("x" * 3_000)] * 2))
        except JournalUnwritable as failed:
            assert not error, f"after the disk was well again: {failed}"
            assert str(folder) in str(failed) and failed.remedy, failed
            error, Disk.fail_at = type(failed).__name__, None
    assert journal is not None
    assert [each.seq for each in await journal.since(ONE)][:acknowledged] == list(range(1, acknowledged + 1))
    with suppress(JournalUnwritable):
        await journal.close()
    return acknowledged, error


async def main(root: Path, step: int) -> None:
    disk = FaultyDisk()
    writer.CHECKPOINT_FRAMES = 30
    await story(root / "well")
    calls, tried, failed = Disk.calls, 0, 0
    for error in ("IOERR_WRITE", "FULL", "IOERR_FSYNC", "READONLY"):
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
