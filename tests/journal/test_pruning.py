"""What is deleted on request from the file, and that it is then still whole."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path

import apsw
import pytest
from children import ONE, TWO, RealTime, note

from turnwright.journal.database import DATABASE
from turnwright.journal.sqlite import SqliteJournal
from turnwright.journal.verify import verify
from turnwright.schema.errors import InputError, JournalHeld
from turnwright.schema.facts import BlobRef, ToolEnded
from turnwright.schema.ids import Prefix

MARKER = "zanzibar"


async def written(journal: SqliteJournal, name: str, facts: int, size: int = 2_000) -> None:
    async with await journal.acquire(name, create=True) as lease:
        for number in range(facts):
            payload = f"{MARKER} {name} {number} ".encode() * size
            sha256 = hashlib.sha256(payload).hexdigest()
            ref = BlobRef(sha256=sha256, size_bytes=len(payload))
            ended = ToolEnded(call_id="c", name="bash", outcome="ok", output_blob=ref)
            await journal.append(lease, [note(f"{MARKER} {number}"), (1, ended)], {sha256: payload})


def anywhere_in(folder: Path, word: str) -> bool:
    return any(word.encode() in path.read_bytes() for path in folder.iterdir() if path.suffix != ".db-shm")


async def test_room_is_given_back(tmp_path: Path) -> None:
    """Everything may go, the conversation that was written last as well, and nothing of it stays behind."""
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        for name in (ONE, TWO):
            await written(journal, name, 60)
        before = (await journal.stored()).total_bytes
        pruned = await journal.prune([ONE, TWO])
        assert (pruned.conversations, pruned.facts, pruned.payloads) == ((ONE, TWO), 239, 120)
        assert await journal.conversations() == []
        assert (await journal.verify()).findings == ()
        assert (await journal.stored()).conversations == ()
    assert verify(tmp_path).findings == ()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < before / 2
    assert not anywhere_in(tmp_path, MARKER)
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        await written(journal, ONE, 3)
        await journal.prune([ONE])
        await written(journal, TWO, 1)
        report = await journal.verify()
        assert (report.findings, report.facts) == ((), 2)
    assert verify(tmp_path).findings == ()


async def test_a_cut_tail_is_still_found_after_a_pruning(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        await written(journal, ONE, 3)
        await written(journal, TWO, 3)
        await journal.prune([TWO])
    connection = apsw.Connection(str(tmp_path / DATABASE))
    connection.execute("DELETE FROM facts WHERE position = (SELECT max(position) FROM facts)")
    connection.close()
    assert any("acknowledged facts are gone" in finding.message for finding in verify(tmp_path).findings)


async def test_who_slept_while_it_was_pruned_writes_nothing(tmp_path: Path) -> None:
    """A lease that ran out is no protection, and must be no way back in."""
    clock = RealTime()
    async with (
        await SqliteJournal.open(tmp_path, clock=clock) as asleep,
        await SqliteJournal.open(tmp_path, clock=clock) as other,
    ):
        lease = await asleep.acquire(ONE, create=True)
        await asleep.append(lease, [note("1")])
        await written(other, TWO, 1)
        connection = apsw.Connection(str(tmp_path / DATABASE))
        connection.execute("UPDATE leases SET expires_at = 0")
        connection.close()
        assert (await other.prune([ONE])).conversations == (ONE,)
        with pytest.raises(JournalHeld):
            await asleep.append(lease, [note("2")])
        assert [each.id for each in await other.conversations()] == [TWO]
        with pytest.raises(InputError):
            await other.since(ONE)
        assert (await other.verify()).findings == ()


async def test_a_payload_named_while_it_was_pruned_stays(tmp_path: Path) -> None:
    """Names are read before the lock is taken: what comes between is read under it."""
    from turnwright.journal import pruning

    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        await written(journal, ONE, 2)
        names = pruning.Names(tmp_path / DATABASE)
        again = f"{MARKER} {ONE} 0 ".encode() * 2_000
        sha256 = hashlib.sha256(again).hexdigest()
        ended = ToolEnded(
            call_id="c", name="bash", outcome="ok", output_blob=BlobRef(sha256=sha256, size_bytes=len(again))
        )
        async with await journal.acquire(TWO, create=True) as lease:
            await journal.append(lease, [(1, ended)], {sha256: again})
        work = pruning.pruning(names, [ONE], captures=False, dry_run=False, host="elsewhere", now_ms=1)
        connection = apsw.Connection(str(tmp_path / DATABASE))
        with connection:
            assert work(connection).payloads == 1
        connection.close()
        assert await journal.blob(sha256) == again


async def test_remains_go_with_their_last_fork(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        await written(journal, ONE, 10)
        forks = ["c_000000000000000fork1", "c_000000000000000fork2"]
        for fork, through in zip(forks, (16, 6), strict=True):
            async with await journal.acquire(fork, create=True, prefix=Prefix(ONE, through)) as lease:
                await journal.append(lease, [note("own")])
        await written(journal, TWO, 1)
        left = [20, 16, 6, 0]
        for pruned, (before, after) in zip([ONE, *forks], pairwise(left), strict=True):
            own = int(pruned != ONE)
            assert (await journal.prune([pruned])).facts == before - after + own
            assert (await journal.verify()).findings == ()
        assert [each.id for each in await journal.conversations()] == [TWO]
        assert (await journal.verify()).facts == 2
