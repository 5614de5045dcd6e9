"""Ten recorded runs, each run again: `python dev.py replays`.

Each run is recorded by real processes, then `turnwright replay` runs it again, offline: whatever it talked to is gone
by then. It must be identical, with exit code 0. Then one byte of a recorded reply is changed, in two ways: in a journal
that is whole otherwise, and in the database itself. Both times the first divergence must be named, and the exit code
be 61.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import msgspec
from recordings import FAULTY, RECORDINGS, TEXT, Recording

from turnwright.app.clock import SystemClock
from turnwright.journal.sqlite import SqliteJournal
from turnwright.schema.facts import AttemptEnded, ModelReplied, Note, Recorded, ToolEnded
from turnwright.testing.fake_provider import spawned
from turnwright.testing.faults import serve

DIFFERS = 61
WAIT_S = 30.0


class Place:
    """Home and workspace of one run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work, self.home = root / "work", root / "home"
        self.work.mkdir(parents=True)
        self.home.mkdir()
        for number in range(4):
            (self.work / f"{number}.txt").write_text(f"this is {number}\n" * 40)

    @property
    def journal(self) -> Path:
        return self.home / "data" / "journal"

    def popen(self, *words: str, **more: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "turnwright", *words],
            cwd=self.work,
            env={**os.environ, "TURNWRIGHT_HOME": str(self.home), "TURNWRIGHT_PERMISSIONS__AUTONOMY": "4"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **more,
        )

    def __call__(self, *words: str, code: int | None = 0) -> bytes:
        with self.popen(*words) as process:
            out, err = process.communicate(timeout=60)
        if code is not None and process.returncode != code:
            raise AssertionError(f"turnwright {' '.join(words)}: exit {process.returncode}: {err.decode()[-2000:]}")
        return out

    def until(self, ready: Callable[[], bool]) -> None:
        end = time.monotonic() + WAIT_S
        while not ready():
            assert time.monotonic() < end, "it did not come so far"
            time.sleep(0.01)

    def conversations(self, journal: Path | None = None) -> dict[str, list[Recorded]]:
        """Newest first."""
        return asyncio.run(_read(journal or self.journal))


async def _read(folder: Path) -> dict[str, list[Recorded]]:
    async with await SqliteJournal.open(folder, clock=SystemClock(), read_only=True) as journal:
        return {each.id: await journal.since(each.id) for each in await journal.conversations()}


@dataclass(frozen=True)
class Row:
    name: str
    facts: int
    turns: int
    steps: int
    from_bytes: int
    from_parts: int
    recorded_ms: int
    code: int
    changed: int
    """The exit code, once a byte of a reply was another."""
    named: str
    """What was said then."""
    rotten: int
    """The same for a byte in the database."""
    rotten_named: str
    complaints: tuple[str, ...]


def recorded(recording: Recording, root: Path) -> Row:
    """Record it, run it again, change it, run it again."""
    place = Place(root)
    with _providers(recording) as urls:
        recording.record(place, urls)
    complaints = [] if (why := recording.wrong(place.conversations())) is None else [why]
    said = [_replayed(place, name) for name in place.conversations()]
    complaints += [f"{again['conversation_id']}: {code}: {again['divergence']}" for code, again in said if code]
    first = next(again for code, again in said)
    seq, name = _reply_of(place, recording)
    changed, named = _replayed_text(_changed(place, name, seq), name)
    rotten, rotten_named = _replayed_text(_rotten(place, name, seq), name)
    for code, text in ((changed, named), (rotten, rotten_named)):
        if code != DIFFERS or not text.startswith(f"{name}:"):
            complaints.append(f"one byte of {name}:{seq} was changed: exit {code}, {text!r}")
    return Row(
        name=recording.name,
        facts=sum(again["facts"] for _, again in said),
        turns=sum(again["turns"] for _, again in said),
        steps=sum(again["steps"] for _, again in said),
        from_bytes=sum(again["from_bytes"] for _, again in said),
        from_parts=sum(again["from_parts"] for _, again in said),
        recorded_ms=first["recorded_ms"],
        code=max(code for code, _ in said),
        changed=changed,
        named=named,
        rotten=rotten,
        rotten_named=rotten_named,
        complaints=tuple(complaints),
    )


@contextmanager
def _providers(recording: Recording) -> Iterator[dict[str, str]]:
    """Only while it is recorded."""
    if recording.name == FAULTY:
        with _faults() as bad, spawned("--steps", "2", "--tool", "ls", "--arguments", '{"path": "."}') as good:
            yield {"bad": bad, "good": good}
    elif recording.name == TEXT:
        call = '<tool_call>\n{"name": "ls", "arguments": {"path": "."}}\n</tool_call>'
        script = Path(tempfile.mkdtemp(prefix="replays-")) / "script.json"
        script.write_text(json.dumps({"steps": [{"text": f"I look.\n{call}\n"}, {"text": "I saw it all."}]}))
        with spawned("--script", str(script), "--follow", "requests") as good:
            yield {"good": good}
        shutil.rmtree(script.parent)
    else:
        yield {}


@contextmanager
def _faults() -> Iterator[str]:
    """The server of faults, in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    serving = serve()
    try:
        faults = asyncio.run_coroutine_threadsafe(serving.__aenter__(), loop).result(WAIT_S)
        yield faults.base_url
        asyncio.run_coroutine_threadsafe(serving.__aexit__(None, None, None), loop).result(WAIT_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _replayed(place: Place, name: str) -> tuple[int, dict[str, Any]]:
    with place.popen("replay", name, "--json") as process:
        out, err = process.communicate(timeout=60)
    assert out, err.decode()
    return process.returncode, json.loads(out)


def _replayed_text(place: Place, name: str) -> tuple[int, str]:
    with place.popen("replay", name) as process:
        out, _ = process.communicate(timeout=60)
    return process.returncode, out.decode().partition("\n")[0]


def _reply_of(place: Place, recording: Recording) -> tuple[int, str]:
    """The last reply with words in it, of the conversation that the run is about: what a fork shares is not its own."""
    for name, facts in recording.told(place.conversations()):
        for each in reversed(facts):
            if isinstance(each.fact, ModelReplied) and each.fact.message.text.strip():
                return each.seq, name
    raise AssertionError(f"{recording.name}: no reply has any words")


def _changed(place: Place, name: str, seq: int) -> Place:
    """The same conversation in a journal of its own, whole but for one byte of what the model said."""
    other = _elsewhere(place, "changed")
    asyncio.run(_copy(place.journal, other.journal, name, seq))
    return other


async def _copy(source: Path, target: Path, name: str, seq: int) -> None:
    async with (
        await SqliteJournal.open(source, clock=SystemClock(), read_only=True) as read,
        await SqliteJournal.open(target, clock=SystemClock()) as write,
        await write.acquire(name, create=True) as lease,
    ):
        facts = [_with_another_byte(each) if each.seq == seq else each for each in await read.since(name)]
        refs = [ref.sha256 for each in facts for ref in _payloads(each)]
        await write.restore(lease, facts, {sha256: await read.blob(sha256) for sha256 in refs})


def _payloads(each: Recorded) -> Iterator[Any]:
    match each.fact:
        case ToolEnded(output_blob=ref) | AttemptEnded(capture=ref) | Note(attachment=ref) if ref is not None:
            yield ref
        case _:
            pass


def _with_another_byte(each: Recorded) -> Recorded:
    assert isinstance(each.fact, ModelReplied)
    word = each.fact.message.text.strip()[:1].encode()
    at = each.body.index(b'"text":"') + len(b'"text":"')
    at = each.body.index(word, at)
    body = each.body[:at] + (b"Z" if word != b"Z" else b"Y") + each.body[at + 1 :]
    return msgspec.structs.replace(each, body=body)


def _rotten(place: Place, name: str, seq: int) -> Place:
    """A byte of the database file itself is another, as a bad disk leaves it."""
    other = _elsewhere(place, "rotten")
    shutil.copytree(place.journal, other.journal)
    connection = apsw.Connection(str(other.journal / "journal.db"))
    ((position, body),) = connection.execute(
        "SELECT position, body FROM facts JOIN conversations ON conversation = number WHERE id = ? AND seq = ?",
        (name, seq),
    )
    at = len(body) // 2
    other_body = bytes(body[:at]) + bytes([body[at] ^ 1]) + bytes(body[at + 1 :])
    connection.execute("UPDATE facts SET body = ? WHERE position = ?", (other_body, position))
    connection.close()
    return other


def _elsewhere(place: Place, what: str) -> Place:
    other = Place(place.root / what)
    other.journal.parent.mkdir(parents=True, mode=0o700)
    return other


def lines(rows: Sequence[Row]) -> Iterator[str]:
    head = f"{'run':<22}{'facts':>6}{'turns':>6}{'steps':>6}{'bytes':>6}{'parts':>6}{'exit':>5}   one byte changed"
    yield head
    yield "-" * 100
    for row in rows:
        numbers = (row.facts, row.turns, row.steps, row.from_bytes, row.from_parts)
        told = "".join(f"{number:>6}" for number in numbers)
        yield f"{row.name:<22}{told}{row.code:>5}   exit {row.changed}: {row.named[:70]}"
        yield f"{'':<57}   exit {row.rotten}: {row.rotten_named[:70]}"
    identical = sum(row.code == 0 for row in rows)
    named = sum(row.changed == row.rotten == DIFFERS for row in rows)
    yield "-" * 100
    yield f"{identical} of {len(rows)} identical; with one byte changed {named} of {len(rows)} differ and say where"


def main() -> int:
    rows = []
    with tempfile.TemporaryDirectory(prefix="replays-") as root:
        for number, recording in enumerate(RECORDINGS):
            rows.append(recorded(recording, Path(root) / str(number)))
            print(f"{recording.name}: {rows[-1].code}", file=sys.stderr, flush=True)
    print("\n".join(lines(rows)))
    wrong = [f"{row.name}: {complaint}" for row in rows for complaint in row.complaints]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
