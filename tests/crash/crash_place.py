"""A folder where one run of the task has everything: workspace, journal, output, effects. Runs are started here."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
from crash_task import SEEDS, TASK, Scene, script, settings, subagent_script

from turnwright.app.clock import SystemClock
from turnwright.journal.migrations import MIGRATIONS
from turnwright.journal.sqlite import SqliteJournal
from turnwright.schema.facts import ConversationOpened, Recorded
from turnwright.schema.ids import ConversationId

DRIVER = Path(__file__).with_name("crash_driver.py")
RUN_LIMIT_S = 60.0

JOURNAL_FILES = {"log": "journal.db-wal", "database": "journal.db", "mark": "journal.mark"}


class Place:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = root / "workspace"
        self.home = root / "home"
        self.journal = self.home / "data" / "journal"
        self.world = root / "world"
        """Besides the workspace, where commands may write: what they did is counted apart from the files of tools."""
        self.effects = self.world / "effects"
        self.script = root / "script.json"
        self.subagent = root / "subagent.json"
        self.out_before = root / "out-before"
        self.out = root / "out"
        """Of the process that is to die. An earlier one that died and a later one that carries on have their own."""
        self.out_after = root / "out-after"
        self.acknowledged = root / "acknowledged"
        """What a client of the host was told, a line each."""

    def lay_out(self, *, journal: Path | None = None, asks: bool = False, scene: Scene = "", seed: int = 0) -> None:
        """Everything new. `journal`: an empty one to begin with, so that making it is not part of the run."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.workspace.mkdir(parents=True)
        self.world.mkdir()
        for name, content in SEEDS.items():
            (self.workspace / name).write_text(content)
        self.script.write_text(script(self.effects, asks=asks, scene=scene, seed=seed))
        self.subagent.write_text(subagent_script(self.effects))
        if said := settings(scene, seed, self.subagent):
            self.home.mkdir()
            (self.home / "config.yaml").write_text(json.dumps(said))
        if journal is not None:
            shutil.copytree(journal, self.journal)
            self.journal.chmod(0o700)

    def path_of(self, file: str) -> Path:
        return self.out if file == "out" else self.journal / JOURNAL_FILES[file]

    def run(self, output: str = "stream-json") -> list[str]:
        return _turnwright("run", TASK, "--model", f"scripted/{self.script}", "--output", output)

    def resume(self, conversation_id: ConversationId, output: str = "stream-json") -> list[str]:
        return _turnwright("resume", conversation_id, "--continue", "--output", output)

    def driver(self, what: str, *words: str) -> list[str]:
        """The same by the driver, which can be killed at named moments."""
        return [sys.executable, str(DRIVER), what, str(self.root), *words]

    def popen(self, command: Sequence[str], out: Path | None = None) -> subprocess.Popen[bytes]:
        out = out or self.out
        with out.open("wb") as stdout, out.with_suffix(".err").open("wb") as stderr:
            return subprocess.Popen(
                command,
                cwd=self.workspace,
                env=environment({"TURNWRIGHT_HOME": str(self.home), "TURNWRIGHT_MACHINE__WRITE": str(self.world)}),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )

    def finish(self, command: Sequence[str], out: Path | None = None) -> tuple[int, float]:
        """Its return code and how long it took. One that does not end is a failure of what is tested."""
        began = time.monotonic()
        with self.popen(command, out) as process:
            try:
                code = process.wait(RUN_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
        return code, time.monotonic() - began

    def conversations(self, folder: Path | None = None) -> dict[ConversationId, list[Recorded]]:
        """Everything that the journal holds; what nobody sent comes first."""
        found = asyncio.run(_read(folder or self.journal))
        return dict(sorted(found.items(), key=lambda each: is_sent(each[1])))


def is_sent(facts: Sequence[Recorded]) -> bool:
    """It is a subagent's conversation."""
    return any(isinstance(each.fact, ConversationOpened) and each.fact.errand is not None for each in facts[:1])


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Ours, except that bytecode is kept: a start that compiles everything says nothing about a start."""
    dropped = {"PYTHONDONTWRITEBYTECODE", "TURNWRIGHT_HOME"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "TURNWRIGHT_PERMISSIONS__AUTONOMY": "4", **more}


def printed(out: Path) -> list[dict[str, Any]]:
    """The whole lines of a stream."""
    return [json.loads(line) for line in printed_lines(out)]


def printed_lines(out: Path) -> list[bytes]:
    content = out.read_bytes() if out.exists() else b""
    return content[: content.rfind(b"\n") + 1].splitlines()


def make_journal(folder: Path) -> None:
    """An empty one."""

    async def make() -> None:
        async with await SqliteJournal.open(folder, clock=SystemClock()):
            pass

    asyncio.run(make())


def make_old(folder: Path) -> None:
    """As the first version of the schema had it: what later versions have added is taken away."""
    connection = apsw.Connection(str(folder / JOURNAL_FILES["database"]))
    names = [(kind, name) for sql in MIGRATIONS[1:] for kind, name in re.findall(r"CREATE (TABLE|TRIGGER) (\w+)", sql)]
    for kind, name in reversed(names):
        connection.execute(f"DROP {kind} {name}")
    connection.execute("DELETE FROM schema_versions WHERE version > 1")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


def only_of_old(folder: Path) -> ConversationId:
    """The one conversation of such a journal: opening it would bring it forward."""
    connection = apsw.Connection(str(folder / JOURNAL_FILES["database"]), flags=apsw.SQLITE_OPEN_READONLY)
    ((name,),) = connection.execute("SELECT id FROM conversations")
    connection.close()
    return str(name)


async def _read(folder: Path) -> dict[ConversationId, list[Recorded]]:
    if not (folder / JOURNAL_FILES["database"]).exists():
        return {}
    async with await SqliteJournal.open(folder, clock=SystemClock(), read_only=True) as journal:
        return {each.id: await journal.since(each.id) for each in await journal.conversations()}


def _turnwright(*words: str) -> list[str]:
    return [sys.executable, "-m", "turnwright", *words]
