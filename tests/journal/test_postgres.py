"""What only a server can do to a journal: lose the connection, restart, refuse; and two processes on one database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
from postgres_server import PostgresServer

from turnwright.app.clock import SystemClock
from turnwright.app.journals import opened_journal
from turnwright.config.load import load
from turnwright.journal.postgres import schema as schema_module
from turnwright.journal.postgres import server as server_module
from turnwright.journal.postgres.journal import PostgresJournal
from turnwright.schema.errors import ConfigError, InputError, JournalHeld, JournalTooNew, JournalUnwritable
from turnwright.schema.facts import Fact, Note, Recorded

ONE = "c_00000000000000000001"


def note(text: str) -> tuple[int, Fact]:
    return 1, Note(code="n", text=text)


def texts(facts: list[Recorded]) -> list[str]:
    return [one.fact.text for one in facts if isinstance(one.fact, Note)]


class Line:
    """Between a client and the server: forwards, and can be cut at a byte, in either direction."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._to = (parts.hostname, parts.port)
        self._path, self._user = parts.path, parts.username
        self.url = ""
        self.cut_request = -1
        """So many more bytes of requests pass, then the line is cut; -1: all do."""
        self.cut_answer = -1
        self.cuts = 0
        self._writers: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def standing(self) -> AsyncIterator[Line]:
        listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"postgresql://{self._user}@127.0.0.1:{listening.sockets[0].getsockname()[1]}{self._path}"
        try:
            yield self
        finally:
            listening.close()
            self._drop()

    def _drop(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._to)
        self._writers |= {writer, back}
        pumps = [
            asyncio.create_task(self._pump(*way))
            for way in ((reader, back, "cut_request"), (there, writer, "cut_answer"))
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for each in (writer, back):
            each.transport.abort()
        await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, which: str) -> None:
        while data := await source.read(65_536):
            left: int = getattr(self, which)
            if 0 <= left <= len(data):
                sink.write(data[:left])
                with contextlib.suppress(OSError):
                    await sink.drain()
                # The server must have read what was let through before its side is torn down.
                await asyncio.sleep(0.005)
                self.cuts += 1
                self.cut_request = self.cut_answer = -1
                self._drop()
                return
            if left > 0:
                setattr(self, which, left - len(data))
            sink.write(data)
            await sink.drain()


async def test_a_connection_lost_at_commit_is_resolved_without_a_duplicate(postgres: PostgresServer) -> None:
    """Cut within the request (never carried out) and within the answer (carried out, and nobody was told)."""
    seen = random.Random(7)
    async with (
        Line(postgres.database()).standing() as line,
        await PostgresJournal.open(line.url, clock=SystemClock()) as journal,
    ):
        lease = await journal.acquire(ONE, create=True)
        await journal.append(lease, [note("first")])
        expected = ["first"]
        for number in range(40):
            # The statement is prepared on this connection first: then a request is one message, and its answer another.
            expected += [f"{number}", f"{number}a", f"{number}b"]
            await journal.append(lease, [note(expected[-3])])
            if number % 2:
                line.cut_answer = seen.randrange(20)
            else:
                line.cut_request = seen.randrange(300)
            seqs = await journal.append(lease, [note(expected[-2]), note(expected[-1])])
            assert (list(seqs), line.cuts) == ([3 * number + 3, 3 * number + 4], number + 1)
        assert texts(await journal.since(ONE)) == expected
        assert (await journal.verify()).findings == ()


async def test_backends_that_are_killed_cost_nothing(postgres: PostgresServer) -> None:
    url = postgres.database()
    async with await PostgresJournal.open(url, clock=SystemClock()) as journal:
        killer = await asyncpg.connect(url)
        done = asyncio.Event()

        async def kill() -> None:
            while not done.is_set():
                await killer.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
                await asyncio.sleep(0.15)

        async def write(number: int) -> None:
            lease = await journal.acquire(f"c_{number:020d}", create=True)
            for turn in range(60):
                await journal.append(lease, [note(f"{turn}a"), note(f"{turn}b")])

        killing = asyncio.create_task(kill())
        await asyncio.gather(*map(write, range(4)))
        done.set()
        await killing
        await killer.close()
        for number in range(4):
            written = texts(await journal.since(f"c_{number:020d}"))
            assert written == [f"{turn}{half}" for turn in range(60) for half in "ab"]
        report = await journal.verify()
        assert (report.facts, report.findings) == (480, ())


async def test_a_restart_is_waited_for_and_a_server_that_stays_away_is_an_error(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await PostgresJournal.open(postgres.database(), clock=SystemClock()) as journal:
        lease = await journal.acquire(ONE, create=True)
        await journal.append(lease, [note("before")])
        follower = journal.follow(ONE)
        assert (await anext(follower)).seq == 1
        await asyncio.to_thread(postgres.stop)
        waiting = asyncio.create_task(journal.append(lease, [note("meanwhile")]))
        await asyncio.sleep(0.1)
        await asyncio.to_thread(postgres.start)
        assert list(await waiting) == [2]
        async with asyncio.timeout(10):
            assert (await anext(follower)).seq == 2
        await follower.aclose()  # type: ignore[attr-defined]
        monkeypatch.setattr(server_module, "PATIENCE_S", 0.2)
        await asyncio.to_thread(postgres.stop)
        try:
            with pytest.raises(JournalUnwritable, match="cannot be reached"):
                await journal.append(lease, [note("nobody there")])
        finally:
            await asyncio.to_thread(postgres.start)
        assert list(await journal.append(lease, [note("again")])) == [3]
        assert texts(await journal.since(ONE)) == ["before", "meanwhile", "again"]


async def test_a_commit_that_nobody_could_be_told_of_is_found_by_the_next(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not acknowledged, and there all the same: whole, and the conversation goes on behind it."""
    async with (
        Line(postgres.database()).standing() as line,
        await PostgresJournal.open(line.url, clock=SystemClock()) as journal,
    ):
        lease = await journal.acquire(ONE, create=True)
        await journal.append(lease, [note("a")])
        await journal.append(lease, [note("b")])
        monkeypatch.setattr(server_module, "PATIENCE_S", -1.0)
        line.cut_answer = 0
        with pytest.raises(JournalUnwritable):
            await journal.append(lease, [note("c1"), note("c2")])
        monkeypatch.undo()
        assert list(await journal.append(lease, [note("d")])) == [5]
        assert texts(await journal.since(ONE)) == ["a", "b", "c1", "c2", "d"]
        assert (await journal.verify()).findings == ()


async def test_a_newer_schema_is_refused_and_an_empty_database_has_no_journal(postgres: PostgresServer) -> None:
    url = postgres.database()
    with pytest.raises(InputError, match="There is no journal in postgresql://127"):
        await PostgresJournal.open(url, clock=SystemClock(), read_only=True)
    opened = [await PostgresJournal.open(url, clock=SystemClock()) for _ in range(2)]
    connection = await asyncpg.connect(url)
    assert await connection.fetchval("SELECT count(*) FROM turnwright.schema_versions") >= 1
    await connection.execute("INSERT INTO turnwright.schema_versions VALUES (99, 0)")
    for read_only in (False, True):
        with pytest.raises(JournalTooNew, match="schema 99"):
            await PostgresJournal.open(url, clock=SystemClock(), read_only=read_only)
    await connection.close()
    for journal in opened:
        await journal.close()


@pytest.mark.parametrize("version", range(1, schema_module.LATEST))
async def test_every_older_schema_is_brought_forward(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """By whoever comes first, be it a reader."""
    url = postgres.database()
    with monkeypatch.context() as patch:
        patch.setattr(schema_module, "LATEST", version)
        connection = await asyncpg.connect(url, server_settings={"search_path": schema_module.SCHEMA})
        await schema_module.prepare(connection, "here", 0, read_only=False)
    await connection.execute("INSERT INTO conversations (id, last_seq, last_hash) VALUES ($1, 0, $2)", ONE, bytes(16))
    await connection.close()
    async with await PostgresJournal.open(url, clock=SystemClock(), read_only=True) as journal:
        assert await journal.conversations() == []
    async with await PostgresJournal.open(url, clock=SystemClock()) as journal:
        await journal.append(await journal.acquire(ONE, create=True), [note("a needle")])
        assert [hit.seq for hit in await journal.search("needle")] == [1]
        assert (await journal.verify()).findings == ()


async def test_rows_that_were_changed_are_found(postgres: PostgresServer) -> None:
    url = postgres.database()
    async with await PostgresJournal.open(url, clock=SystemClock()) as journal:
        lease = await journal.acquire(ONE, create=True)
        for number in range(1, 8):
            await journal.append(lease, [note(str(number))])
        connection = await asyncpg.connect(url)
        await connection.execute("UPDATE turnwright.facts SET body = set_byte(body, 40, 0) WHERE seq = 3")
        await connection.execute("DELETE FROM turnwright.facts WHERE seq IN (5, 7)")
        await connection.close()
        assert texts(await journal.since(ONE)) == ["1", "2", "4", "6"]
        assert [one.seq for one in journal.damaged(ONE)] == [3, 5]
        found = [(one.place, one.seq) for one in (await journal.verify()).findings]
        assert found == [("record", 3), ("record", 5), ("record", 7)]


@pytest.mark.parametrize(
    ("url", "kind", "says"),
    [
        ("mysql://x/y", ConfigError, "does not name a PostgreSQL database"),
        ("postgresql://localhost", ConfigError, "does not name a PostgreSQL database"),
        ("postgresql://ada:secret@localhost/db", ConfigError, "holds a password"),
        ("postgresql://127.0.0.1:1/db", JournalUnwritable, "postgresql://127.0.0.1:1/db cannot be reached"),
    ],
)
async def test_a_bad_address_is_one_clear_sentence(tmp_path: Path, url: str, kind: type[Exception], says: str) -> None:
    environ = {"TURNWRIGHT_HOME": str(tmp_path), "TURNWRIGHT_JOURNAL__URL": url}
    with pytest.raises(kind, match=says) as raised:
        async with opened_journal(load(tmp_path, environ=environ), label="test"):
            pass
    assert "secret" not in str(raised.value)


async def test_a_database_that_is_not_there_is_named(postgres: PostgresServer) -> None:
    with pytest.raises(JournalUnwritable, match="does not exist"):
        await PostgresJournal.open(postgres.url("nowhere"), clock=SystemClock())


async def test_without_asyncpg_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwright.app.journals.find_spec", lambda name: None)
    environ = {"TURNWRIGHT_HOME": str(tmp_path), "TURNWRIGHT_JOURNAL__URL": "postgresql://localhost/db"}
    with pytest.raises(ConfigError, match=r"pip install 'turnwright\[postgres\]'"):
        async with opened_journal(load(tmp_path, environ=environ), label="test"):
            pass


def test_asyncpg_is_not_loaded_where_it_is_not_used() -> None:
    code = "import sys, turnwright.app.agent, turnwright.cli.commands.run; sys.exit('asyncpg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Machine:
    """A process of Turnwright with folders of its own, as on another machine; the database is shared."""

    def __init__(self, folder: Path, url: str) -> None:
        (folder / "work").mkdir(parents=True)
        self.work = folder / "work"
        self._environ = {**os.environ, "TURNWRIGHT_HOME": str(folder / "home"), "TURNWRIGHT_JOURNAL__URL": url}

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "turnwright", *words]
        return subprocess.Popen(
            command, cwd=self.work, env=self._environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, *words: str, code: int = 0) -> str:
        process = self.start(*words)
        out, err = process.communicate(timeout=60)
        assert process.returncode == code, err
        return out + err

    def model(self, script: str) -> list[str]:
        path = self.work.parent / "script.yaml"
        path.write_text(script)
        return ["--model", f"scripted/{path}", "--output", "stream-json"]


SLOW = "follow: history\nsteps:\n- calls: [{bash: {command: sleep 30}}]\n- text: Done.\n"
QUICK = "- calls: [{ls: {path: .}}]\n- calls: [{ls: {path: .}}]\n- text: Done.\n"


def test_two_processes_share_one_database(postgres: PostgresServer, tmp_path: Path) -> None:
    """Side by side on conversations of their own; on one conversation the second is told who is first, can read it,
    and takes it up at once when the first is killed."""
    url = postgres.database()
    here, there = Machine(tmp_path / "here", url), Machine(tmp_path / "there", url)
    both = [machine.start("run", f"task {n}", *machine.model(QUICK)) for n, machine in enumerate([here, there] * 2)]
    ids = []
    for process in both:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        ids.append(json.loads(out.splitlines()[0])["conversation_id"])
    listed = {json.loads(line)["conversation_id"] for line in there.run("sessions", "--json").splitlines()}
    assert listed == set(ids)
    first = here.start("run", "long", *here.model(SLOW))
    assert first.stdout is not None
    lines = iter(first.stdout.readline, "")
    name = json.loads(next(lines))["conversation_id"]
    next(line for line in lines if '"tool.started"' in line)
    refused = there.run("run", "--resume", name, "me too", *there.model(QUICK), code=1)
    assert f"Conversation {name} is being written by process {first.pid}" in refused
    assert "long" in there.run("show", name)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    said = there.run("resume", name, "--continue", "--cwd", str(there.work), *there.model(SLOW))
    last = json.loads(said.splitlines()[-1])
    assert (last["type"], last["reason"], last["text"]) == ("result", "stop", "Done.")
    assert "clean" in here.run("journal", "verify")


async def test_a_lease_that_somebody_holds_is_refused(postgres: PostgresServer) -> None:
    url = postgres.database()
    async with (
        await PostgresJournal.open(url, clock=SystemClock(), label="first") as first,
        await PostgresJournal.open(url, clock=SystemClock()) as second,
    ):
        lease = await first.acquire(ONE, create=True)
        await first.append(lease, [note("a")])
        with pytest.raises(JournalHeld, match="first"):
            await second.acquire(ONE)
