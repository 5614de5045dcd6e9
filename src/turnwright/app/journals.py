"""Which journal it is: the one place that names the kinds there are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from turnwright.app.clock import SystemClock
from turnwright.config.load import Loaded
from turnwright.journal.port import Journal
from turnwright.journal.sqlite import SqliteJournal


@asynccontextmanager
async def opened_journal(loaded: Loaded, *, label: str, read_only: bool = False) -> AsyncIterator[Journal]:
    """`label` is what others are told about this holder."""
    journal = await SqliteJournal.open(loaded.folders.journal, clock=SystemClock(), read_only=read_only, label=label)
    try:
        yield journal
    finally:
        await journal.close()
