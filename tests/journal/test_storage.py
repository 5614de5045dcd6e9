"""The disk and its faults, the schema and its versions, and what it all costs."""

from __future__ import annotations

import shlex
import stat
import subprocess
import sys
import time
from pathlib import Path

import apsw
import children
import faulty
import power
import pytest
from children import ONE, RealTime, note

from turnwright.journal import database, migrations
from turnwright.journal.database import DATABASE
from turnwright.journal.migrations import LATEST
from turnwright.journal.rows import NO_HASH, Entry, row_hash
from turnwright.journal.sqlite import SqliteJournal
from turnwright.journal.verify import verify
from turnwright.schema.errors import InputError, JournalDamaged, JournalTooNew, JournalUnwritable
from turnwright.schema.facts import encode_body
from turnwright.schema.ids import Prefix


def run(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=550, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def in_a_namespace(script: str) -> list[str]:
    """As root of a mount namespace of our own, where the system lets us have one."""
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespaces here")
    return run("unshare", "-rm", "sh", "-ec", script)


def child(what: str, *more: str) -> str:
    return shlex.join([sys.executable, "-W", "error", children.__file__, what, *more])


def test_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    folder = disk / "journal"
    said = in_a_namespace(f"mount -t tmpfs -o size=2m none {disk}; {child('fill', str(folder), '0')}")
    acknowledged, seqs, findings, *errors = said
    assert int(acknowledged) > 10
    assert (seqs, findings) == (f"[{int(acknowledged) + 1}]", "0")
    assert errors == [
        f"The journal {folder / DATABASE} has no space left (SQLITE_FULL). "
        "Free some disk space; what was acknowledged is safe."
    ]


@pytest.mark.parametrize("limit", [300_000, 5_000_000])
def test_a_file_that_may_not_grow(tmp_path: Path, limit: int) -> None:
    acknowledged, seqs, findings, *errors = run(*shlex.split(child("fill", str(tmp_path), str(limit))))
    assert int(acknowledged) > 1
    assert (seqs, findings) == (f"[{int(acknowledged) + 1}]", "0")
    assert all(str(tmp_path) in error for error in errors) and errors


async def test_a_read_only_disk(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    async with await SqliteJournal.open(folder, clock=RealTime()) as journal:
        await journal.append(await journal.acquire(ONE, create=True), [note("a"), note("b")])
    bind = f"mount --bind {folder} {folder}; mount -o remount,ro,bind {folder}"
    assert in_a_namespace(f"{bind}; {child('look', str(folder), ONE)}") == [
        "2 0",
        f"The journal {folder / DATABASE} cannot be used: Read-only file system. "
        "Check the folder's permissions and its disk.",
    ]


@pytest.mark.parametrize("step", [pytest.param(11, marks=[pytest.mark.slow, pytest.mark.timeout(600)]), 40])
def test_a_disk_that_fails_at_any_call(tmp_path: Path, step: int) -> None:
    [said] = run(sys.executable, faulty.__file__, str(tmp_path), str(step))
    print(said)
    assert "calls" in said


@pytest.mark.parametrize(
    "trials", [pytest.param(2_500, marks=[pytest.mark.slow, pytest.mark.timeout(300)]), 120], ids=["many", "some"]
)
def test_the_plug_is_pulled_at_any_moment(tmp_path: Path, trials: int) -> None:
    [said] = run(sys.executable, power.__file__, str(tmp_path), str(trials), "7")
    print(said)
    assert said.endswith(": 0 lost, 0 corrupt")


def test_a_power_cut_does_cost_what_was_not_synced(tmp_path: Path) -> None:
    """Else the trials above could not see a loss."""
    command = [sys.executable, power.__file__, str(tmp_path), "30", "7", "NORMAL"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "acknowledged facts are gone" in done.stdout


async def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "some" / "where" / "journal"
    async with await SqliteJournal.open(folder, clock=RealTime()) as journal:
        await journal.append(await journal.acquire(ONE, create=True), [note("a")])
        await journal.since(ONE)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.iterdir()]}
    assert modes == {
        "journal": 0o700,
        "journal.db": 0o600,
        "journal.db-wal": 0o600,
        "journal.db-shm": 0o600,
        "journal.mark": 0o600,
    }
    assert sorted(path.name for path in folder.iterdir()) == ["journal.db", "journal.mark"]
    folder.chmod(0o755)
    async with await SqliteJournal.open(folder, clock=RealTime()):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_pragmas_are_those_that_durability_needs(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path, clock=RealTime()):
        connection = database.open_writer(tmp_path / DATABASE, 0)
        wanted = {
            "journal_mode": "wal",
            "synchronous": 2,
            "foreign_keys": 1,
            "busy_timeout": 5000,
            "mmap_size": 0,
            "cell_size_check": 1,
            "trusted_schema": 0,
            "wal_autocheckpoint": 0,
        }
        assert {name: connection.pragma(name) for name in wanted} == wanted
        assert connection.reserve_bytes() == 8
        connection.close()


async def test_nothing_there(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError, match="There is no journal in"):
            await SqliteJournal.open(folder, clock=RealTime(), read_only=True)
    assert not (tmp_path / "missing").exists()
    assert verify(tmp_path).clean
    with pytest.raises(InputError, match="There is no journal folder"):
        verify(tmp_path / "missing")


async def test_a_reader_cannot_write(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path, clock=RealTime()):
        pass
    async with await SqliteJournal.open(tmp_path, clock=RealTime(), read_only=True) as journal:
        with pytest.raises(JournalUnwritable, match="reading only"):
            await journal.acquire(ONE, create=True)


async def test_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(JournalUnwritable, match="File exists"):
        await SqliteJournal.open(tmp_path / "file", clock=RealTime())


async def test_not_a_journal(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"something else entirely " * 500)
    with pytest.raises(JournalDamaged, match="SQLITE_NOTADB"):
        await SqliteJournal.open(tmp_path, clock=RealTime())
    assert not verify(tmp_path).clean
    (tmp_path / DATABASE).unlink()
    connection = apsw.Connection(str(tmp_path / DATABASE))
    connection.execute("CREATE TABLE recipes (name)")
    connection.close()
    for read_only in (True, False):
        with pytest.raises(JournalDamaged, match="not a Turnwright journal"):
            await SqliteJournal.open(tmp_path, clock=RealTime(), read_only=read_only)


async def test_a_newer_schema_is_left_alone(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path, clock=RealTime()):
        pass
    connection = apsw.Connection(str(tmp_path / DATABASE))
    connection.execute("INSERT INTO schema_versions VALUES (99, 0)")
    connection.close()
    for read_only in (True, False):
        with pytest.raises(JournalTooNew, match=f"schema 99; this one knows {LATEST}") as caught:
            await SqliteJournal.open(tmp_path, clock=RealTime(), read_only=read_only)
        assert "Upgrade" in caught.value.remedy
    with pytest.raises(JournalTooNew):
        verify(tmp_path)


async def test_an_older_schema_is_brought_forward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        await journal.append(await journal.acquire(ONE, create=True), [note("old")])
    step = "ALTER TABLE conversations ADD COLUMN archived INTEGER NOT NULL DEFAULT 0"
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, step))
    for module in (migrations, database):
        monkeypatch.setattr(module, "LATEST", LATEST + 1)
    for _ in range(2):
        async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
            lease = await journal.acquire(ONE)
            await journal.append(lease, [note("new")])
    connection = database.open_reader(tmp_path / DATABASE)
    assert connection.execute("SELECT version FROM schema_versions").fetchall() == [
        (version,) for version in range(1, LATEST + 2)
    ]
    assert connection.execute("SELECT archived FROM conversations").get == 0
    connection.close()
    assert verify(tmp_path).clean


@pytest.mark.parametrize("version", range(1, LATEST))
async def test_every_older_schema_is_read_as_it_is_and_brought_forward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """A reader changes nothing, and does without what came later; a writer brings it forward."""
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "LATEST", version)
        database.create(tmp_path / DATABASE, 0)
    connection = apsw.Connection(str(tmp_path / DATABASE))
    connection.execute("INSERT INTO conversations VALUES (1, ?)", (ONE,))
    last_hash = NO_HASH
    for seq, (at, fact) in enumerate([note("a needle"), note("hay")], 1):
        entry = Entry(at, 1, None, encode_body(fact))
        own = row_hash(last_hash, ONE, seq, entry)
        row = (1, seq, at, 1, last_hash + own, entry.body)
        connection.execute(
            "INSERT INTO facts (conversation, seq, at, schema_version, link, body) VALUES (?, ?, ?, ?, ?, ?)", row
        )
        last_hash = own
    connection.close()
    for read_only in (True, False):
        async with await SqliteJournal.open(tmp_path, clock=RealTime(), read_only=read_only) as journal:
            assert [each.id for each in await journal.conversations()] == [ONE]
            assert [each.seq for each in await journal.since(ONE)] == [1, 2]
            assert [hit.seq for hit in await journal.search("needle")] == [1]
            stored = await journal.stored()
            assert (stored.facts, [each.id for each in stored.conversations]) == (2, [ONE])
            with pytest.raises(JournalDamaged, match="is missing"):
                await journal.blob("0" * 64)
        reader = database.open_reader(tmp_path / DATABASE)
        assert migrations.version_of(reader) == (version if read_only else LATEST)
        reader.close()
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        await journal.append(await journal.acquire(ONE), [note("new")])
    assert verify(tmp_path).facts == 3


async def test_shared_facts_outlive_their_first_owner(tmp_path: Path) -> None:
    """Whatever deletes, the database refuses to take away what a fork still shows."""
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        await journal.append(await journal.acquire(ONE, create=True), [note("1"), note("2"), note("3")])
        fork = await journal.acquire("c_00000000000000000009", create=True, prefix=Prefix(ONE, 2))
        await journal.append(fork, [note("4")])
    connection = apsw.Connection(str(tmp_path / DATABASE))
    for statement in ("DELETE FROM facts WHERE conversation = 1", "DELETE FROM facts WHERE seq = 2"):
        with pytest.raises(apsw.ConstraintError, match="a fork shares this fact"):
            connection.execute(statement)
    connection.execute("DELETE FROM facts WHERE conversation = 1 AND seq > 2")
    connection.execute("DELETE FROM facts WHERE conversation = 2; DELETE FROM prefixes WHERE conversation = 2")
    connection.execute("DELETE FROM facts WHERE conversation = 1")
    connection.close()


async def test_a_step_that_fails_leaves_the_schema_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with await SqliteJournal.open(tmp_path, clock=RealTime()):
        pass
    with monkeypatch.context() as patch:
        broken = "CREATE TABLE half (made); SELECT * FROM nowhere"
        patch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, broken))
        for module in (migrations, database):
            patch.setattr(module, "LATEST", LATEST + 1)
        with pytest.raises(apsw.SQLError):
            await SqliteJournal.open(tmp_path, clock=RealTime())
    async with await SqliteJournal.open(tmp_path, clock=RealTime()):
        assert verify(tmp_path).clean


def test_an_sqlite_that_may_corrupt_is_refused() -> None:
    for version in ("3.7.0", "3.40.1", "3.51.2"):
        with pytest.raises(JournalUnwritable, match=version):
            database.require_library(version)
    for version in ("3.51.3", "3.54.1", "4.0.0"):
        database.require_library(version)


async def test_the_end_of_a_long_conversation_is_near(tmp_path: Path) -> None:
    """100,000 facts: what is shown first does not cost what is not shown."""
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        lease = await journal.acquire(ONE, create=True)
        for _ in range(100):
            await journal.append(lease, [note("a line of the past " * 4)] * 1_000)
        steps: list[int] = []
        await journal.tail(ONE, 1)
        connection = journal._reader._connection

        def counted() -> bool:
            steps.append(1)
            return False

        connection.set_progress_handler(counted, 10)
        assert [each.seq for each in await journal.tail(ONE, 50)] == list(range(99_951, 100_001))
        assert len(steps) < 200, "steps of SQLite's machine, in tens"
        before = time.perf_counter()
        assert len(await journal.since(ONE, 99_000)) == 1_000
        assert time.perf_counter() - before < 1


async def test_an_idle_conversation_costs_little(tmp_path: Path) -> None:
    def resident_kib() -> int:
        return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0])

    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc here")
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        leases = []
        before = 0
        for number in range(220):
            lease = await journal.acquire(f"c_{number:020d}", create=True)
            await journal.append(lease, [note("x" * 1_000)] * 10)
            leases.append(lease)
            if number == 20:
                before = resident_kib()
        assert (resident_kib() - before) / 200 < 100
