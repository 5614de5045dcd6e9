"""Several processes, and processes that die."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from children import ONE, TWO, RealTime, kill, note, start

from turnwright.journal import following
from turnwright.journal.processes import is_dead, myself, started
from turnwright.journal.records import Holder
from turnwright.journal.sqlite import SqliteJournal
from turnwright.journal.verify import verify
from turnwright.schema.errors import JournalHeld


@contextlib.contextmanager
def running(child: subprocess.Popen[str]):  # type: ignore[no-untyped-def]
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate()


def die_at_random(folder: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    for round_ in range(rounds):
        child = start("append", folder, ONE, str(chance.choice([10, 500, 6000])))
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0, 0.12))
        acknowledged = [int(line) for line in kill(child)]
        last = acknowledged[-1] if acknowledged else 0
        report = verify(folder)
        assert report.clean, (round_, report.findings)
        assert report.facts >= last, (round_, report.facts, last)


async def test_nothing_acknowledged_is_lost_to_kill(tmp_path: Path) -> None:
    die_at_random(tmp_path, rounds=8, seed=1)
    async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
        before = time.monotonic()
        lease = await journal.acquire(ONE)
        assert time.monotonic() - before < 2, "a dead holder is replaced at once"
        facts = await journal.since(ONE)
        assert [recorded.seq for recorded in facts] == list(range(1, lease.last_seq + 1))
        await journal.append(lease, [note("on it goes")])
    assert verify(tmp_path).clean


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [2, 3])
def test_nothing_acknowledged_is_lost_to_many_kills(tmp_path: Path, seed: int) -> None:
    die_at_random(tmp_path, rounds=100, seed=seed)


def test_killed_while_it_is_made(tmp_path: Path) -> None:
    """At any moment of the first start, what is there verifies clean and can be used."""
    for step in range(6):
        folder = tmp_path / str(step)
        child = start("append", folder, ONE)
        time.sleep(0.05 + step * 0.05)
        kill(child)
        if folder.exists():
            assert verify(folder).findings == ()
        child = start("append", folder, ONE)
        with running(child):
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_every_write(tmp_path: Path) -> None:
    """The first writes make the database, the later ones its log, its mark and its checkpoints."""
    if shutil.which("strace") is None:
        pytest.skip("no strace here")
    calls = "pwrite64,fsync,fdatasync,ftruncate,rename,unlink,mkdir,chmod,fchmod"
    died = 0
    for number in [*range(1, 120), *range(120, 400, 10)]:
        folder = tmp_path / str(number)
        inject = f"inject={calls}:signal=KILL:when={number}"
        command = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", inject]
        child = start("append", folder, ONE, "3000", before=command)
        said = child.communicate(timeout=60)[0].split()
        died += 1
        last = int(said[-1]) if said and said[-1] != "ready" else 0
        if folder.exists():
            report = verify(folder)
            assert (report.findings, report.facts >= last) == ((), True), (number, last, report)
        else:
            assert last == 0
    print(f"{died} points, nothing lost")


async def test_the_second_process_is_told_who_holds_it(tmp_path: Path) -> None:
    child = start("hold", tmp_path, ONE)
    with running(child):
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        async with await SqliteJournal.open(tmp_path, clock=RealTime()) as journal:
            with pytest.raises(JournalHeld) as caught:
                await journal.acquire(ONE)
            assert f"process {child.pid} on {os.uname().nodename} (holder)" in str(caught.value)
            assert "turnwright follow" in caught.value.remedy
            assert len(await journal.since(ONE)) == 1
            other = await journal.acquire(TWO, create=True)
            await journal.append(other, [note("beside it")])
            kill(child)
            lease = await journal.acquire(ONE)
            assert lease.generation == 2


def share(folder: Path, seconds: float) -> None:
    children = [start("load", folder, name, str(seconds)) for name in (ONE, TWO)]
    said = [child.communicate(timeout=seconds + 60)[0].split() for child in children]
    assert [child.returncode for child in children] == [0, 0]
    report = verify(folder)
    assert report.findings == ()
    assert report.facts == sum(int(facts) for facts, _ in said)
    print("facts and longest wait in ms:", said)
    assert max(int(wait) for _, wait in said) < 5_000


def test_two_processes_share_one_database(tmp_path: Path) -> None:
    share(tmp_path, 3)


def test_a_journal_in_use_verifies_clean(tmp_path: Path) -> None:
    with running(start("load", tmp_path, ONE, "3")) as child:
        while not (tmp_path / "journal.db").exists():
            time.sleep(0.01)
        times = 0
        while child.poll() is None:
            assert verify(tmp_path).findings == ()
            times += 1
    assert times > 5


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_two_processes_share_one_database_for_a_minute(tmp_path: Path) -> None:
    share(tmp_path, 60)


@pytest.mark.parametrize("told", [True, False], ids=["told", "looking"])
async def test_following_another_process_is_prompt(tmp_path: Path, told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not told:
        monkeypatch.setattr(following, "notices_of", lambda path: None)
    child = start("stamp", tmp_path, ONE, "150", stdin=subprocess.PIPE)
    with running(child):
        assert child.stdout is not None and child.stdin is not None
        assert child.stdout.readline() == "ready\n"
        late: list[float] = []
        async with await SqliteJournal.open(tmp_path, clock=RealTime(), read_only=True) as journal, asyncio.timeout(60):
            facts = journal.follow(ONE)
            await anext(facts)
            child.stdin.write("go\n")
            child.stdin.flush()
            async for recorded in facts:
                late.append((time.monotonic_ns() - int(recorded.fact.text)) / 1e6)  # type: ignore[union-attr]
                if len(late) == 150:
                    break
            await facts.aclose()  # type: ignore[attr-defined]
    late.sort()
    print(f"follow latency in ms: median {late[75]:.1f}, p99 {late[148]:.1f}")
    # The commit itself lies in it, on a disk that others use too.
    assert late[75] < following.LOOK_S * 1000 + 10


def test_who_is_alive() -> None:
    me = myself("test")
    boot, space, ticks = me.start_time.split("|")
    gone = subprocess.Popen(["true"])
    gone.wait()
    table = [
        (me, False),
        (Holder(pid=gone.pid, host=me.host, start_time=me.start_time), True),
        (Holder(pid=me.pid, host=me.host, start_time=f"{boot}|{space}|{int(ticks) - 1}"), True),
        (Holder(pid=me.pid, host=me.host, start_time=f"another|{space}|{ticks}"), True),
        (Holder(pid=gone.pid, host="elsewhere", start_time=me.start_time), False),
        (Holder(pid=gone.pid, host=me.host, start_time=f"{boot}|pid:[1]|{ticks}"), False),
    ]
    for holder, expected in table:
        assert is_dead(holder, me.host) is expected, holder


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen(["true"])
    deadline = time.monotonic() + 10
    while started(child.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert started(child.pid) == ""
    child.wait()
