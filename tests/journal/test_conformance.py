"""All journals against the suite that any journal must pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from postgres_server import PostgresServer

from turnwright.journal.memory import Memory, MemoryJournal
from turnwright.journal.postgres.journal import PostgresJournal
from turnwright.journal.sqlite import SqliteJournal
from turnwright.testing.journal_conformance import CHECKS, Check, WallTime


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_sqlite(check: Check, tmp_path: Path) -> None:
    async def open_journal(clock: WallTime, label: str = "") -> SqliteJournal:
        return await SqliteJournal.open(tmp_path / "journal", clock=clock, label=label)

    await check(open_journal)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_memory(check: Check) -> None:
    memory = Memory()

    async def open_journal(clock: WallTime, label: str = "") -> MemoryJournal:
        return MemoryJournal(clock=clock, memory=memory, label=label)

    await check(open_journal)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_postgres(check: Check, postgres: PostgresServer) -> None:
    url = postgres.database()

    async def open_journal(clock: WallTime, label: str = "") -> PostgresJournal:
        return await PostgresJournal.open(url, clock=clock, label=label)

    await check(open_journal)
