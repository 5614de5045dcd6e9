"""Processes that write a journal, so that tests can kill them. Run as `python children.py WHAT FOLDER …`."""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from turnwright.journal.sqlite import SqliteJournal
from turnwright.journal.verify import verify
from turnwright.schema.errors import JournalUnwritable
from turnwright.schema.facts import BlobRef, ConversationOpened, Note, ToolEnded, TurnEnded, TurnStarted

ONE = "c_00000000000000000001"
TWO = "c_00000000000000000002"


class RealTime:
    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


def start(what: str, folder: Path, *more: str, before: Sequence[str] = (), **options: object) -> subprocess.Popen[str]:
    """Its lines of output are what it has to say; nothing is buffered."""
    command = [*before, sys.executable, "-u", __file__, what, str(folder), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload, no-any-return]


def kill(child: subprocess.Popen[str]) -> list[str]:
    """SIGKILL, then what it had said."""
    child.send_signal(signal.SIGKILL)
    said, _ = child.communicate(timeout=30)
    return said.splitlines()


def note(text: str) -> tuple[int, Note]:
    return 1_000, Note(code="test", text=text)


async def append(folder: str, conversation: str, size: str = "200") -> None:
    """Appends until it is killed; says each seq when it is acknowledged."""
    async with await SqliteJournal.open(folder, clock=RealTime(), label="child") as journal:
        lease = await journal.acquire(conversation, create=True)
        print("ready", flush=True)
        while True:
            facts = [note("x" * int(size))] * (1 + lease.last_seq % 3)
            for seq in await journal.append(lease, facts):
                os.write(1, b"%d\n" % seq)


async def load(folder: str, conversation: str, seconds: str) -> None:
    """Appends for so long, then says how many facts and the longest wait in milliseconds."""
    async with await SqliteJournal.open(folder, clock=RealTime(), label="child") as journal:
        lease = await journal.acquire(conversation, create=True)
        until, longest = time.monotonic() + float(seconds), 0.0
        while time.monotonic() < until:
            before = time.monotonic()
            await journal.append(lease, [note("load")] * 2)
            longest = max(longest, time.monotonic() - before)
        print(lease.last_seq, round(longest * 1000))


async def hold(folder: str, conversation: str) -> None:
    async with await SqliteJournal.open(folder, clock=RealTime(), label="holder") as journal:
        lease = await journal.acquire(conversation, create=True)
        await journal.append(lease, [(1, ConversationOpened(workspace="/w", model="m", turnwright="0"))])
        print("ready", flush=True)
        await asyncio.sleep(600)


async def stamp(folder: str, conversation: str, count: str) -> None:
    """Appends facts that say when they were durable."""
    async with await SqliteJournal.open(folder, clock=RealTime(), label="child") as journal:
        lease = await journal.acquire(conversation, create=True)
        await journal.append(lease, [note("first")])
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(int(count)):
            await asyncio.sleep(0.013)
            await journal.append(lease, [note(str(time.monotonic_ns()))])


async def varied(folder: str, conversation: str, rounds: str) -> None:
    """A bit of everything, then waits to be killed with its log still there."""
    async with await SqliteJournal.open(folder, clock=RealTime(), label="child") as journal:
        await write_varied(journal, conversation, int(rounds))
        print("ready", flush=True)
        await asyncio.sleep(600)


async def write_varied(journal: SqliteJournal, conversation: str, rounds: int) -> None:
    lease = await journal.acquire(conversation, create=True)
    await journal.append(lease, [(1, ConversationOpened(workspace="/w", model="m", turnwright="0"))])
    for round_ in range(rounds):
        data = f"output of round {round_}\n".encode() * 3_000
        sha256 = hashlib.sha256(data).hexdigest()
        ref = BlobRef(sha256=sha256, size_bytes=len(data))
        await journal.append(lease, [(2, TurnStarted(turn_id=f"t{round_}", text=f"do {round_}")), note("n" * 700)])
        await journal.append(
            lease, [(3, ToolEnded(name="bash", outcome="ok", output_blob=ref)), note("m" * 9_000)], {sha256: data}
        )
        await journal.append(lease, [(4, TurnEnded(turn_id=f"t{round_}", reason="stop"))])


async def fill(folder: str, limit: str) -> None:
    """Appends until there is no room, makes room, and appends again. `limit` is of a file's size; 0 is the disk's."""
    ballast = Path(folder).with_name("ballast")
    if int(limit):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
    else:
        ballast.write_bytes(b"b" * 200_000)
    async with await SqliteJournal.open(folder, clock=RealTime(), label="child") as journal:
        lease = await journal.acquire(ONE, create=True)
        errors = set()
        for _ in range(3):
            try:
                while True:
                    await journal.append(lease, [note("x" * 20_000)])
            except JournalUnwritable as error:
                errors.add(str(error))
        acknowledged = lease.last_seq
        findings = verify(folder).findings
        if int(limit):
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        else:
            ballast.unlink()
        seqs = list(await journal.append(lease, [note("room again")]))
        facts = [each.seq for each in await journal.since(ONE)]
    findings += verify(folder).findings
    assert facts == list(range(1, seqs[0] + 1)), facts
    print(acknowledged, seqs, len(findings), *errors, sep="\n")


async def look(folder: str, conversation: str) -> None:
    """What a reader and a writer can do with a folder."""
    async with await SqliteJournal.open(folder, clock=RealTime(), read_only=True) as journal:
        print(len(await journal.since(conversation)), len(verify(folder).findings))
    try:
        await SqliteJournal.open(folder, clock=RealTime())
    except JournalUnwritable as error:
        print(error)


WORK = {work.__name__: work for work in (append, load, hold, stamp, varied, fill, look)}

if __name__ == "__main__":
    asyncio.run(WORK[sys.argv[1]](*sys.argv[2:]))
