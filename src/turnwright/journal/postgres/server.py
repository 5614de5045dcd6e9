"""Connections: made, lent, replaced when they break; and what the server's errors mean to a person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import TypeVar
from urllib.parse import urlsplit

import asyncpg

from turnwright.journal.postgres.schema import SCHEMA
from turnwright.schema.errors import JournalUnwritable

Answer = TypeVar("Answer")

CONNECTIONS_MAX = 8
CONNECT_S = 10.0
STATEMENT_S = 30.0
PATIENCE_S = 30.0
"""How long a server that is gone is waited for before an append fails: longer than a restart or a failover."""
PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0)

LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # What the client says of itself where a connection was killed between two of its states.
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.TooManyConnectionsError,
    OSError,
    TimeoutError,
)
"""After these nobody knows whether the statement was carried out."""


def place_of(url: str) -> str:
    """The database as it is shown: whoever may be in the URL stays out of it."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"postgresql://{parts.hostname or ''}{port}{parts.path}"


class Server:
    def __init__(self, url: str, label: str) -> None:
        self.place = place_of(url)
        self._url = url
        self._settings = {"search_path": SCHEMA, "application_name": f"turnwright {label}"[:63]}
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None

    async def open(self) -> None:
        async with self.explained():
            self._pool = await asyncpg.create_pool(
                self._url,
                min_size=0,
                max_size=CONNECTIONS_MAX,
                timeout=CONNECT_S,
                command_timeout=STATEMENT_S,
                server_settings=self._settings,
                reset=_as_it_is,
            )

    async def listener(self) -> asyncpg.Connection[asyncpg.Record]:
        """A connection apart, for notices."""
        return await asyncpg.connect(self._url, timeout=CONNECT_S, server_settings=self._settings)

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                await asyncio.wait_for(pool.close(), CONNECT_S)
            except LOST:
                pool.terminate()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        assert self._pool is not None, "the journal was closed"
        async with self._pool.acquire(timeout=STATEMENT_S) as connection:
            yield connection  # type: ignore[misc]  # the pool's proxy has all of a connection's methods

    async def patiently(self, work: Callable[[asyncpg.Connection[asyncpg.Record], bool], Awaitable[Answer]]) -> Answer:
        """Again on another connection where one broke. `work` is told whether it may have been done before."""
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE_S
        for tries in count():
            try:
                async with self.lent() as connection:
                    try:
                        return await work(connection, tries > 0)
                    except LOST:
                        connection.terminate()
                        raise
            except LOST as error:
                if loop.time() > until or isinstance(error, PermissionError):
                    raise self.explain(error) from error
            except asyncpg.PostgresError as error:
                raise self.explain(error) from error
            await asyncio.sleep(PAUSES_S[min(tries, len(PAUSES_S) - 1)])
        raise AssertionError("count() does not end")

    @asynccontextmanager
    async def explained(self) -> AsyncIterator[None]:
        try:
            yield
        except (asyncpg.PostgresError, *LOST) as error:
            raise self.explain(error) from error

    def explain(self, error: Exception) -> Exception:
        """What the outside world did to us, in words; anything else is our own bug and stays what it is."""
        match error:
            case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
                what, remedy = "refuses this user", "Set PGUSER and PGPASSWORD, or write a ~/.pgpass."
            case asyncpg.InvalidCatalogNameError():
                what, remedy = "does not exist", "Make it with createdb, or name another in journal.url."
            case asyncpg.InsufficientPrivilegeError():
                what, remedy = "does not let this user write", "Grant the user CREATE on the database."
            case asyncpg.ReadOnlySQLTransactionError():
                what, remedy = "is read-only", "Name the primary server in journal.url."
            case asyncpg.DiskFullError() | asyncpg.OutOfMemoryError() | asyncpg.InsufficientResourcesError():
                what, remedy = "has no room left", "Free some space on the server; what was acknowledged is safe."
            case (
                OSError()
                | TimeoutError()
                | asyncpg.PostgresConnectionError()
                | asyncpg.InterfaceError()
                | asyncpg.InternalClientError()
            ):
                what = "cannot be reached"
                remedy = "Check the server and journal.url; what was acknowledged is safe."
            case asyncpg.OperatorInterventionError() | asyncpg.TransactionRollbackError():
                what, remedy = "ended the connection", "Try again; what was acknowledged is safe."
            case _:
                return error
        said = str(error).partition("\n")[0] or type(error).__name__
        return JournalUnwritable(f"The journal {self.place} {what} ({said}).", remedy=remedy)


async def _as_it_is(connection: object) -> None:
    """Nothing of ours leaves a trace in a session, so there is nothing to reset: that would be a round trip more."""
