"""Pull the plug, ten thousand times. Run as `python power.py FOLDER TRIALS SEED [SYNCHRONOUS]`.

A layer beneath SQLite's checksums writes down every write, cut, sync, creation and removal of a real story: two
conversations, appends side by side, payloads, checkpoints, closing and opening again, and a third that is pruned each
time. A trial picks a moment of it and makes the disk that a power cut could have left: what was synced is there; of
what was not, any part, sector by sector, in any order. The journal is then opened, and everything acknowledged by that
moment must be in it.
"""

from __future__ import annotations

import asyncio
import hashlib
import multiprocessing
import os
import random
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import apsw
from children import ONE, TWO, RealTime, note

from turnwright.journal import database, marks, writer
from turnwright.journal.database import DATABASE, open_writer
from turnwright.journal.losses import note_losses
from turnwright.journal.marks import MARK, Marks
from turnwright.journal.sqlite import SqliteJournal
from turnwright.journal.verify import verify
from turnwright.schema.errors import JournalDamaged
from turnwright.schema.facts import BlobRef, ToolEnded

THREE = "c_00000000000000000003"
SECTOR_BYTES = 512
SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)
"""How much of what was not synced reached the disk all the same."""


@dataclass(frozen=True)
class Event:
    kind: Literal["create", "write", "cut", "sync", "remove"]
    name: str
    offset: int = 0
    data: bytes = b""


@dataclass(frozen=True)
class Acknowledged:
    """By the time that so many events had happened."""

    events: int
    conversation_id: str
    seq: int


@dataclass
class Story:
    folder: Path
    events: list[Event] = field(default_factory=list)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    before: dict[str, bytes] = field(default_factory=dict)


class RecordingFile(apsw.VFSFile):
    def __init__(self, name: apsw.URIFilename | str | None, flags: list[int], events: list[Event]) -> None:
        super().__init__("unix", name, flags)
        self._name = Path(str(name.filename() if isinstance(name, apsw.URIFilename) else name)).name
        self._events = events

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._events.append(Event("write", self._name, offset, bytes(data)))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._events.append(Event("sync", self._name))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        self._events.append(Event("cut", self._name, size))


class RecordingDisk(apsw.VFS):
    def __init__(self, events: list[Event]) -> None:
        super().__init__("recording", "unix", makedefault=True)
        self._events = events

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> RecordingFile:
        path = Path(str(name.filename() if isinstance(name, apsw.URIFilename) else name))
        if not path.exists():
            self._events.append(Event("create", path.name))
        return RecordingFile(name, flags, self._events)

    def xDelete(self, name: str, sync: bool) -> None:
        super().xDelete(name, sync)
        self._events.append(Event("remove", Path(name).name))


class RecordingSystem:
    """`os` as the file of marks sees it."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        written = os.pwrite(descriptor, data, offset)
        self._events.append(Event("write", MARK, offset, bytes(data)))
        return written

    def fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)
        self._events.append(Event("sync", MARK))


def lived(folder: Path, synchronous: str) -> Story:
    """In a process of its own, whose SQLite writes through the layer that records."""
    weaker = [pragma.replace("synchronous=FULL", f"synchronous={synchronous}") for pragma in database._PRAGMAS]
    setattr(database, "_PRAGMAS", tuple(weaker))  # noqa: B010 - another tuple than its own type says
    writer.CHECKPOINT_FRAMES = 60
    return asyncio.run(tell(folder))


async def tell(folder: Path) -> Story:
    story = Story(folder)
    recording = RecordingDisk(story.events)
    async with await SqliteJournal.open(folder, clock=RealTime()):
        pass
    story.before = {name: (folder / name).read_bytes() for name in (DATABASE, MARK)}
    story.events.clear()
    setattr(marks, "os", RecordingSystem(story.events))  # noqa: B010 - not what the module exports
    for session in range(3):
        async with await SqliteJournal.open(folder, clock=RealTime()) as journal, asyncio.TaskGroup() as group:
            for conversation_id in (ONE, TWO):
                group.create_task(_append(story, journal, conversation_id, session))
        await _prune(folder)
    recording.unregister()
    return story


async def _prune(folder: Path) -> None:
    """A conversation that comes and goes, and the room it took given back: others must not notice."""
    async with await SqliteJournal.open(folder, clock=RealTime()) as journal:
        async with await journal.acquire(THREE, create=True) as lease:
            for number in range(10):
                payload = f"{number} soon gone ".encode() * 1_000
                sha256 = hashlib.sha256(payload).hexdigest()
                ended = ToolEnded(
                    call_id="c",
                    name="bash",
                    outcome="ok",
                    output_blob=BlobRef(sha256=sha256, size_bytes=len(payload)),
                )
                await journal.append(lease, [(1, ended)], {sha256: payload})
        assert (await journal.prune([THREE])).conversations == (THREE,)


async def _append(story: Story, journal: SqliteJournal, conversation_id: str, session: int) -> None:
    lease = await journal.acquire(conversation_id, create=True)
    for number in range(40):
        seq = lease.last_seq
        facts = [note(f"{seq + each + 1} " + "x" * (number * 37 % 3_000)) for each in range(1 + number % 3)]
        payload = f"{conversation_id} {session} {number} ".encode() * 300
        blobs = {hashlib.sha256(payload).hexdigest(): payload} if number % 7 == 3 else {}
        seqs = await journal.append(lease, facts, blobs)
        story.acknowledged.append(Acknowledged(len(story.events), conversation_id, seqs[-1]))


class Disk:
    """What a power cut leaves: `synced` for certain, of `pending` whatever chance will have."""

    def __init__(self, before: dict[str, bytes]) -> None:
        self._synced = {name: bytearray(content) for name, content in before.items()}
        self._pending: dict[str, list[Event]] = {name: [] for name in before}
        self._removed: set[str] = set()
        self._unnamed: set[str] = set()
        """Created, and their folder not yet synced."""

    def happen(self, event: Event) -> None:
        name = event.name
        match event.kind:
            case "create":
                self._removed.discard(name)
                self._synced[name], self._pending[name] = bytearray(), []
                self._unnamed.add(name)
            case "write" | "cut":
                self._pending.setdefault(name, []).append(event)
            case "sync":
                # SQLite syncs the folder with the first sync of a log that it made.
                self._unnamed.discard(name)
                for waiting in self._pending.get(name, []):
                    _apply(self._synced[name], waiting)
                self._pending[name] = []
            case "remove":
                self._removed.add(name)

    def after_power_cut(self, chance: random.Random) -> dict[str, bytes]:
        share = chance.choice(SHARES)
        left = {}
        for name, synced in self._synced.items():
            if (name in self._removed or name in self._unnamed) and chance.random() < 0.5:
                continue
            content = bytearray(synced)
            for event in self._pending[name]:
                for part in _sectors(event):
                    if chance.random() < share:
                        _apply(content, part)
            left[name] = bytes(content)
        return left


def _sectors(event: Event) -> Iterator[Event]:
    if event.kind == "cut":
        yield event
        return
    start, end = event.offset, event.offset + len(event.data)
    while start < end:
        stop = min(end, (start // SECTOR_BYTES + 1) * SECTOR_BYTES)
        yield Event("write", event.name, start, event.data[start - event.offset : stop - event.offset])
        start = stop


def _apply(content: bytearray, event: Event) -> None:
    if event.kind == "cut":
        del content[event.offset :]
        return
    if len(content) < event.offset:
        content.extend(bytes(event.offset - len(content)))
    content[event.offset : event.offset + len(event.data)] = event.data


@dataclass
class Outcome:
    lost: int = 0
    corrupt: int = 0
    complaints: list[str] = field(default_factory=list)


def judge(folder: Path, files: dict[str, bytes], promised: dict[str, int], outcome: Outcome, label: str) -> None:
    for name in ("journal.db", "journal.db-wal", "journal.db-shm", MARK):
        (folder / name).unlink(missing_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    try:
        connection = open_writer(folder / DATABASE, 0)
    except JournalDamaged as damaged:
        outcome.corrupt += 1
        outcome.complaints.append(f"{label}: {damaged}")
        return
    mark = Marks(folder / MARK)
    note_losses(connection, mark, 0)
    for conversation_id, seq in promised.items():
        rows: list[Any] = connection.execute(
            "SELECT f.seq, f.body FROM facts f JOIN conversations c ON c.number = f.conversation "
            "WHERE c.id = ? ORDER BY f.seq",
            (conversation_id,),
        ).fetchall()
        found = [number for number, body in rows if b'"%d x' % number in body or b'"%d "' % number in body]
        if found[:seq] != list(range(1, seq + 1)):
            outcome.lost += 1
            outcome.complaints.append(f"{label}: {conversation_id} has {len(found)} of {seq} acknowledged facts")
    if told := connection.execute("SELECT what FROM losses").fetchall():
        outcome.lost += 1
        outcome.complaints.append(f"{label}: {told}")
    mark.checkpoint(running=False)
    mark.close()
    connection.close()
    if findings := verify(folder).findings:
        outcome.corrupt += 1
        outcome.complaints.append(f"{label}: {findings[0]}")


def main(root: Path, trials: int, seed: int, synchronous: str = "FULL") -> int:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as elsewhere:
        story = elsewhere.submit(lived, root / "lived", synchronous).result(timeout=120)
    (root / "left").mkdir()
    chance = random.Random(seed)
    outcome = Outcome()
    moments = sorted(chance.randrange(len(story.events) + 1) for _ in range(trials))
    disk, happened = Disk(story.before), 0
    promised: dict[str, int] = {}
    waiting = list(story.acknowledged)
    for number, moment in enumerate(moments):
        while happened < moment:
            disk.happen(story.events[happened])
            happened += 1
        while waiting and waiting[0].events <= moment:
            acknowledged = waiting.pop(0)
            promised[acknowledged.conversation_id] = acknowledged.seq
        judge(root / "left", disk.after_power_cut(chance), promised, outcome, f"trial {number} at event {moment}")
    for complaint in outcome.complaints[:10]:
        print(complaint)
    print(
        f"{trials} power cuts in {len(story.events)} events and {len(story.acknowledged)} acknowledged appends "
        f"(seed {seed}): {outcome.lost} lost, {outcome.corrupt} corrupt"
    )
    return 1 if outcome.lost or outcome.corrupt else 0


if __name__ == "__main__":
    warnings.simplefilter("error")
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:5]))
