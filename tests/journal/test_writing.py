"""The writer thread: what it promises when nobody waits, when time passes and when something breaks."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest
from children import ONE, TWO, RealTime, note

from turnwright.journal import database, writer
from turnwright.journal.database import DATABASE, LOG
from turnwright.journal.marks import Marks
from turnwright.journal.sqlite import SqliteJournal
from turnwright.journal.verify import verify
from turnwright.schema.errors import JournalError, JournalHeld, JournalUnwritable
from turnwright.testing.journal_conformance import WallTime


def column(folder: Path, query: str) -> list[object]:
    connection = database.open_reader(folder / DATABASE)
    try:
        return [row[0] for row in connection.execute(query)]
    finally:
        connection.close()


async def test_a_lease_is_renewed_while_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RENEW_MS", 20)
    clock = WallTime()
    async with await SqliteJournal.open(tmp_path, clock=clock) as journal:
        await journal.acquire(ONE, create=True)
        clock.now_ms += 20_000
        async with asyncio.timeout(10):
            while column(tmp_path, "SELECT expires_at FROM leases") != [clock.now_ms + 45_000]:
                await asyncio.sleep(0.01)
        async with await SqliteJournal.open(tmp_path, clock=clock) as other:
            clock.now_ms += 44_000
            with pytest.raises(JournalHeld):
                await other.acquire(ONE, create=True)
    assert column(tmp_path, "SELECT expires_at FROM leases") == [0]


async def test_what_waits_is_committed_together(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        leases = [await journal.acquire(f"c_{number:020d}", create=True) for number in range(50)]
        assert journal._writer is not None
        commits: list[int] = []
        journal._writer._committing = commits.append
        for _ in range(4):
            await asyncio.gather(*(journal.append(lease, [note("together")]) for lease in leases))
        assert len(commits) <= 20, "of 200 appends"


async def test_commits_overwrite_a_log_that_is_already_long(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        lease = await journal.acquire(ONE, create=True)
        sizes = set()
        for _ in range(100):
            await journal.append(lease, [note("x" * 500)])
            sizes.add((tmp_path / LOG).stat().st_size)
        assert len(sizes) < 15


async def test_the_log_is_emptied_as_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "CHECKPOINT_FRAMES", 40)
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        lease = await journal.acquire(ONE, create=True)
        for _ in range(200):
            await journal.append(lease, [note("x" * 3_000)])
            assert (tmp_path / LOG).stat().st_size < 4_000_000
        assert (await journal.verify()).findings == ()
    assert verify(tmp_path).facts == 200


async def test_one_bad_append_does_not_take_the_others_down(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        good, bad = await journal.acquire(ONE, create=True), await journal.acquire(TWO, create=True)
        # As if the journal's idea of where the conversation ends were wrong: its seq is taken.
        await journal.append(bad, [note("a")])
        bad.last_seq = 0
        done = await asyncio.gather(
            *(journal.append(lease, [note("b")]) for lease in (good, bad, good)), return_exceptions=True
        )
        assert [type(each).__name__ for each in done] == ["range", "ConstraintError", "range"]
        assert len(await journal.since(ONE)) == 2
    assert verify(tmp_path).clean


async def test_an_acquire_that_nobody_awaits_holds_nothing(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        await journal.append(await journal.acquire(TWO, create=True), [note("a")])
        task = asyncio.ensure_future(journal.acquire(ONE, create=True))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        async with asyncio.timeout(10):
            while True:
                try:
                    await journal.acquire(ONE, create=True)
                    break
                except JournalHeld:
                    await asyncio.sleep(0.01)


async def test_what_was_submitted_is_finished_before_closing(tmp_path: Path) -> None:
    journal = await SqliteJournal.open(tmp_path, clock=RealTime())
    lease = await journal.acquire(ONE, create=True)
    appends = [asyncio.ensure_future(journal.append(lease, [note(str(number))])) for number in range(10)]
    await asyncio.sleep(0)
    await journal.close()
    assert [list(await append) for append in appends] == [[seq] for seq in range(1, 11)]
    with pytest.raises(AssertionError, match="closed"):
        await journal.append(lease, [note("late")])


async def test_a_payload_must_be_what_its_name_says(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        lease = await journal.acquire(ONE, create=True)
        with pytest.raises(AssertionError, match="wrong name"):
            await journal.append(lease, [note("a")], {hashlib.sha256(b"this").hexdigest(): b"that"})
        assert list(await journal.append(lease, [note("a")])) == [1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_bug_in_the_writer_leaves_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = await SqliteJournal.open(tmp_path, clock=RealTime())
    lease = await journal.acquire(ONE, create=True)
    monkeypatch.setattr(writer, "row_hash", lambda *_: None)
    with pytest.raises(JournalError, match="error of its own"):
        await journal.append(lease, [note("a")])
    with pytest.raises(JournalUnwritable, match="its writer stopped"):
        await journal.append(lease, [note("b")])
    await journal.close()
    monkeypatch.undo()
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as again:
        assert verify(tmp_path).clean
        with pytest.raises(JournalHeld):
            await again.acquire(ONE, create=True)


async def test_a_lock_that_is_never_given_back_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BUSY_POLLS_MAX", 20)
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        lease = await journal.acquire(ONE, create=True)
        other = database.open_writer(tmp_path / DATABASE, 0)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalUnwritable, match="kept locked by another process"):
            await journal.append(lease, [note("a")])
        other.execute("ROLLBACK")
        assert list(await journal.append(lease, [note("a")])) == [1]
        other.close()


async def test_without_its_mark_nothing_is_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        leases = [await journal.acquire(name, create=True) for name in (ONE, TWO)]

        def broken(*_: object) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(Marks, "facts", broken)
            done = await asyncio.gather(
                *(journal.append(lease, [note("a")]) for lease in leases), return_exceptions=True
            )
        assert [type(each) for each in done] == [JournalUnwritable] * 2
        # They are there all the same, once: "unknown" to whoever asked, and what follows goes on behind them.
        assert list(await journal.append(leases[0], [note("b")])) == [2]
        assert [len(await journal.since(name)) for name in (ONE, TWO)] == [2, 1]
    assert verify(tmp_path).clean
