"""Flipped bits and cut tails: `verify` finds every one, and one damaged record costs one record."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from children import ONE, TWO, RealTime, kill, note, start, write_varied

from turnwright.journal.database import DATABASE, LOG
from turnwright.journal.marks import MARK
from turnwright.journal.rows import NO_HASH, Entry, Row, fault_in, row_hash
from turnwright.journal.sqlite import SqliteJournal
from turnwright.journal.verify import verify
from turnwright.schema.errors import JournalDamaged, JournalError

QUICK, SLOW = 60, 1_500


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal whose process was killed: part of it is in the database, the newest part only in the log."""
    folder = tmp_path_factory.mktemp("killed")
    for conversation, rounds in ((ONE, 8), (TWO, 4)):
        child = start("varied", folder, conversation, str(rounds))
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        kill(child)
    assert (folder / LOG).stat().st_size > 100_000
    return folder


@pytest.fixture(scope="module")
def closed(killed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same after a clean end: everything is in the database, and there is no log."""
    import asyncio

    folder = tmp_path_factory.mktemp("closed") / "journal"
    shutil.copytree(killed, folder)

    async def settle() -> None:
        async with await SqliteJournal.open(folder, clock=RealTime()) as journal:
            await write_varied(journal, "c_00000000000000000003", 2)

    asyncio.run(settle())
    assert not (folder / LOG).exists()
    return folder


def damages(folder: Path, count: int, seed: int) -> Iterator[tuple[str, Path, bytes]]:
    """Name, file and its damaged content; flips and cuts in every file of a journal, by size."""
    chance = random.Random(seed)
    names = [name for name in (DATABASE, LOG, MARK) if (folder / name).exists()]
    contents = {name: (folder / name).read_bytes() for name in names}
    weights = [len(contents[name]) + 50_000 for name in names]
    for _ in range(count):
        name = chance.choices(names, weights)[0]
        content = bytearray(contents[name])
        if chance.random() < 0.75:
            bit = chance.randrange(len(content) * 8)
            content[bit // 8] ^= 1 << bit % 8
            yield f"flip of bit {bit} in {name}", folder / name, bytes(content)
        else:
            written = len(content.rstrip(b"\0")) if name == LOG else len(content)
            cut = chance.choice([chance.randrange(written), max(0, written - chance.randrange(1, 5_000))])
            yield f"{name} cut to {cut} of {written}", folder / name, bytes(content[:cut])


def hunt(pristine: Path, work: Path, count: int, seed: int) -> Counter[str]:
    """Each damage by itself: what was seen, by file; what was not seen fails."""
    shutil.copytree(pristine, work, dirs_exist_ok=True)
    assert verify(work).findings == ()
    seen: Counter[str] = Counter()
    missed: list[str] = []
    for what, file, content in damages(pristine, count, seed):
        (work / file.name).write_bytes(content)
        for leftover in work.glob("*-shm"):
            leftover.unlink()
        if verify(work).clean:
            missed.append(what)
        seen[file.name] += 1
        shutil.copyfile(file, work / file.name)
    assert missed == []
    return seen


@pytest.mark.parametrize("state", ["killed", "closed"])
def test_every_damage_is_found(state: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    hunt(request.getfixturevalue(state), tmp_path, QUICK, seed=7)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("state", ["killed", "closed"])
def test_every_one_of_many_damages_is_found(state: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    seen = hunt(request.getfixturevalue(state), tmp_path, SLOW, seed=11)
    print(f"{state}: found all of {dict(seen)}")


def test_verifying_changes_nothing(killed: Path, tmp_path: Path) -> None:
    shutil.copytree(killed, tmp_path, dirs_exist_ok=True)
    names = (DATABASE, LOG, MARK)
    before = [(tmp_path / name).read_bytes() for name in names]
    assert verify(tmp_path) == verify(tmp_path)
    assert [(tmp_path / name).read_bytes() for name in names] == before


async def test_one_damaged_record_costs_one_record(closed: Path, tmp_path: Path) -> None:
    """A flip in the words of one fact: it alone is left out, by every kind of read, and named."""
    shutil.copytree(closed, tmp_path, dirs_exist_ok=True)
    flip(tmp_path / DATABASE, b"do 5")
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        everything = range(1, 1 + 8 * 5 + 1)
        [lost] = {*everything} - {each.seq for each in await journal.since(ONE)}
        assert [each.seq for each in await journal.since(ONE)] == [seq for seq in everything if seq != lost]
        assert [each.seq for each in await journal.before(ONE, lost + 2, 3)] == [lost - 1, lost + 1]
        assert [damaged.seq for damaged in journal.damaged(ONE)] == [lost]
        assert "not those that were written" in journal.damaged(ONE)[0].why
        assert [each.seq for each in await journal.since(ONE, lost - 1, 1)] == []
        assert journal.damaged(TWO) == []
        lease = await journal.acquire(ONE)
        assert list(await journal.append(lease, [note("on")])) == [everything[-1] + 1]
        report = await journal.verify()
    assert [(each.conversation_id, each.seq) for each in report.findings if each.place == "record"] == [(ONE, lost)]


async def test_a_damaged_payload_is_named(closed: Path, tmp_path: Path) -> None:
    shutil.copytree(closed, tmp_path, dirs_exist_ok=True)
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        [ref] = [each.fact.output_blob for each in await journal.since(TWO, 0, 4) if hasattr(each.fact, "output_blob")]
        assert ref is not None
    import apsw

    connection = apsw.Connection(str(tmp_path / DATABASE))
    connection.execute("UPDATE blobs SET data = zeroblob(50) WHERE hex(sha256) = upper(?)", (ref.sha256,))
    connection.close()
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        with pytest.raises(JournalDamaged, match=ref.sha256):
            await journal.blob(ref.sha256)
        assert len(await journal.since(TWO)) == 21
    assert any(finding.place == "blob" and ref.sha256 in finding.message for finding in verify(tmp_path).findings)


@pytest.mark.parametrize("column", ["at", "schema_version", "landmark", "body", "link"])
@pytest.mark.parametrize("value", [None, "text", 2.5])
def test_a_column_of_another_kind_is_a_fault(column: str, value: Any) -> None:
    """What a flip in the head of a record can make of it, for all that the schema says."""
    claimed = Entry(7, 1, None, b"{}")
    row = Row(3, *claimed, NO_HASH + row_hash(NO_HASH, ONE, 3, claimed))
    assert fault_in(ONE, row) == ""
    if (column, value) != ("landmark", None):
        assert "not those that were written" in fault_in(ONE, row._replace(**{column: value}))


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_is_damaged_the_rest_is_read(closed: Path, tmp_path: Path, seed: int) -> None:
    """Pages torn anywhere behind the first: what can be read is what was written, and nothing crashes."""
    chance = random.Random(seed)
    shutil.copytree(closed, tmp_path, dirs_exist_ok=True)
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        pristine = {name: {each.seq: each for each in await journal.since(name)} for name in (ONE, TWO)}
    content = bytearray((tmp_path / DATABASE).read_bytes())
    for _ in range(4):
        page = chance.randrange(1, len(content) // 4096)
        start_ = page * 4096 + chance.randrange(4000)
        content[start_ : start_ + 16] = chance.randbytes(16)
    (tmp_path / DATABASE).write_bytes(content)
    read = 0
    async with await SqliteJournal.open(tmp_path, clock=RealTime(), read_only=True) as journal:
        for name, facts in pristine.items():
            try:
                for each in await journal.since(name):
                    assert each == facts[each.seq]
                    read += 1
            except JournalError as error:
                assert str(tmp_path) in str(error)
    print("read", read, "of", sum(map(len, pristine.values())))


async def test_a_cut_log_is_remembered(killed: Path, tmp_path: Path) -> None:
    """Going on after a loss must not hide it."""
    shutil.copytree(killed, tmp_path, dirs_exist_ok=True)
    log = (tmp_path / LOG).read_bytes().rstrip(b"\0")
    (tmp_path / LOG).write_bytes(log[:-30_000])
    [loss] = [finding.message for finding in verify(tmp_path).findings]
    assert "acknowledged facts are gone, the last of them c_00000000000000000002 seq 21" in loss
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        lease = await journal.acquire(TWO)
        while lease.last_seq < 40:
            await journal.append(lease, [note("on it goes")] * 5)
    assert [finding.message for finding in verify(tmp_path).findings] == [loss]


def test_a_database_that_is_gone_is_missed(closed: Path, tmp_path: Path) -> None:
    shutil.copytree(closed, tmp_path, dirs_exist_ok=True)
    (tmp_path / DATABASE).unlink()
    [finding] = verify(tmp_path).findings
    assert "is gone; 73 facts had been acknowledged" in finding.message


def test_an_empty_mark_is_damage_only_beside_a_database(closed: Path, tmp_path: Path) -> None:
    """A process that dies while it makes the journal leaves no more than that, and has acknowledged nothing."""
    (tmp_path / MARK).touch()
    assert verify(tmp_path).clean
    shutil.copytree(closed, tmp_path, dirs_exist_ok=True)
    (tmp_path / MARK).write_bytes(b"")
    [finding] = verify(tmp_path).findings
    assert finding.place == "mark"


def flip(file: Path, words: bytes) -> None:
    content = bytearray(file.read_bytes())
    place = content.index(words)
    content[place] ^= 4
    file.write_bytes(content)
