"""Which journal it is: the one place that names the kinds there are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec

from turnwright.app.clock import SystemClock
from turnwright.config.load import Loaded
from turnwright.journal.port import Journal
from turnwright.schema.errors import ConfigError


@asynccontextmanager
async def opened_journal(loaded: Loaded, *, label: str, read_only: bool = False) -> AsyncIterator[Journal]:
    """`label` is what others are told about this holder."""
    journal = await _opened(loaded, label, read_only)
    try:
        yield journal
    finally:
        await journal.close()


async def _opened(loaded: Loaded, label: str, read_only: bool) -> Journal:
    url, clock = loaded.settings.journal.url, SystemClock()
    if not url:
        from turnwright.journal.sqlite import SqliteJournal

        return await SqliteJournal.open(loaded.folders.journal, clock=clock, read_only=read_only, label=label)
    if find_spec("asyncpg") is None:
        raise ConfigError(
            "journal.url names a PostgreSQL database, and asyncpg, which speaks to it, is not installed.",
            remedy="Install it: pip install 'turnwright[postgres]'.",
        )
    from turnwright.journal.postgres.journal import PostgresJournal

    return await PostgresJournal.open(url, clock=clock, read_only=read_only, label=label)


def has_journal(loaded: Loaded) -> bool:
    """Whether anything can have been recorded yet. A folder that may not be looked into may hold one."""
    if loaded.settings.journal.url:
        return True
    try:
        return loaded.folders.journal.exists()
    except PermissionError:  # the journal itself says it better
        return True
