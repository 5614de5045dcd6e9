"""The tables, one step after another. Released steps are never edited: a change is a new one."""

from __future__ import annotations

import asyncpg

from turnwright.schema.errors import InputError, JournalTooNew

SCHEMA = "turnwright"
"""Everything of ours is in a schema of this name, so that a database can be shared with others."""
LOCK = 0x7477_6A6C
"""Two processes that open a new database bring it forward one after the other."""

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE conversations (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id text NOT NULL UNIQUE,
        parent bigint REFERENCES conversations (number),
        through bigint NOT NULL DEFAULT 0,
        last_seq bigint NOT NULL,
        last_hash bytea NOT NULL,
        last_at bigint NOT NULL DEFAULT 0,
        commit_number bigint NOT NULL DEFAULT 0,
        generation bigint NOT NULL DEFAULT 0,
        expires_at bigint NOT NULL DEFAULT 0,
        since_ms bigint NOT NULL DEFAULT 0,
        pid bigint NOT NULL DEFAULT 0,
        host text NOT NULL DEFAULT '',
        start_time text NOT NULL DEFAULT '',
        label text NOT NULL DEFAULT ''
    );
    CREATE INDEX conversations_latest ON conversations (commit_number DESC);
    CREATE SEQUENCE commit_numbers;
    CREATE TABLE facts (
        conversation bigint NOT NULL REFERENCES conversations (number),
        seq bigint NOT NULL,
        at bigint NOT NULL,
        schema_version integer NOT NULL,
        landmark integer,
        link bytea NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (conversation, seq)
    );
    CREATE INDEX landmarks ON facts (conversation, landmark, seq) WHERE landmark IS NOT NULL;
    CREATE TABLE blobs (
        sha256 bytea PRIMARY KEY,
        size_bytes bigint NOT NULL,
        compressed boolean NOT NULL,
        data bytea NOT NULL
    );
    ALTER TABLE blobs ALTER COLUMN data SET STORAGE EXTERNAL;
    """,
    """
    ALTER TABLE conversations ADD COLUMN pruned boolean NOT NULL DEFAULT false;
    ALTER TABLE conversations ADD COLUMN searched bigint NOT NULL DEFAULT 0;
    CREATE TABLE searchable (
        conversation bigint NOT NULL REFERENCES conversations (number),
        seq bigint NOT NULL,
        at bigint NOT NULL,
        words tsvector NOT NULL,
        PRIMARY KEY (conversation, seq)
    );
    CREATE INDEX searchable_words ON searchable USING gin (words);
    CREATE TABLE forgotten (sha256 bytea PRIMARY KEY);
    """,
)
"""A conversation's row knows where it ends, by number and by hash: the head that an append moves, and that a cut tail
would not reach. It is the lease too. `through` is what a fork shares of its `parent`. `searchable` holds
words of facts up to `searched`, and can be made anew. Of a conversation that was `pruned`, at most what forks share is
left; `forgotten` are payloads that facts still name."""

LATEST = len(MIGRATIONS)


async def version_of(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    there = await connection.fetchval("SELECT to_regclass($1)::text", f"{SCHEMA}.schema_versions")
    if there is None:
        return 0
    return int(await connection.fetchval(f"SELECT coalesce(max(version), 0) FROM {SCHEMA}.schema_versions"))


async def prepare(connection: asyncpg.Connection[asyncpg.Record], where: str, now_ms: int, *, read_only: bool) -> None:
    """Bring an older schema forward, all steps or none; refuse a newer one."""
    version = await version_of(connection)
    if version > LATEST:
        raise JournalTooNew(
            f"The journal {where} was written by a newer Turnwright (schema {version}; this one knows {LATEST}).",
            remedy="Upgrade Turnwright, or use another database.",
        )
    if read_only and version == 0:
        raise InputError(f"There is no journal in {where}.", remedy="Nothing was recorded there yet.")
    if version < LATEST:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
            await _migrate(connection, now_ms)


async def _migrate(connection: asyncpg.Connection[asyncpg.Record], now_ms: int) -> None:
    await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_versions (version integer PRIMARY KEY, applied_at bigint NOT NULL)"
    )
    # Another process may have done it while this one waited.
    for version in range(await version_of(connection) + 1, LATEST + 1):
        await connection.execute(MIGRATIONS[version - 1])
        await connection.execute("INSERT INTO schema_versions VALUES ($1, $2)", version, now_ms)
