"""The schema, one step after another. Released steps are never edited: a change is a new one."""

from __future__ import annotations

import apsw

from turnwright.journal.transactions import transaction

APPLICATION_ID = 0x74776A6C

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE schema_versions (
        version INTEGER PRIMARY KEY,
        applied_at INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE conversations (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE
    ) STRICT;
    CREATE TABLE facts (
        position INTEGER PRIMARY KEY,
        conversation INTEGER NOT NULL REFERENCES conversations (number),
        seq INTEGER NOT NULL,
        at INTEGER NOT NULL,
        schema_version INTEGER NOT NULL,
        landmark INTEGER,
        link BLOB NOT NULL,
        body BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX facts_by_seq ON facts (conversation, seq);
    CREATE INDEX landmarks ON facts (conversation, landmark, seq) WHERE landmark IS NOT NULL;
    CREATE TABLE blobs (
        number INTEGER PRIMARY KEY,
        sha256 BLOB NOT NULL UNIQUE,
        size_bytes INTEGER NOT NULL,
        compressed INTEGER NOT NULL,
        data BLOB NOT NULL
    ) STRICT;
    CREATE TABLE leases (
        conversation INTEGER PRIMARY KEY REFERENCES conversations (number),
        generation INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        since_ms INTEGER NOT NULL,
        pid INTEGER NOT NULL,
        host TEXT NOT NULL,
        start_time TEXT NOT NULL,
        label TEXT NOT NULL
    ) STRICT;
    CREATE TABLE tally (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        changes INTEGER NOT NULL
    ) STRICT;
    INSERT INTO tally VALUES (1, 0);
    CREATE TABLE losses (
        number INTEGER PRIMARY KEY,
        found_at INTEGER NOT NULL,
        what TEXT NOT NULL
    ) STRICT;
    """,
    """
    CREATE TABLE prefixes (
        conversation INTEGER PRIMARY KEY REFERENCES conversations (number),
        parent INTEGER NOT NULL REFERENCES conversations (number),
        through INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX prefixes_by_parent ON prefixes (parent, through);
    CREATE TRIGGER shared_facts_stay BEFORE DELETE ON facts
    WHEN EXISTS (SELECT 1 FROM prefixes WHERE parent = OLD.conversation AND through >= OLD.seq)
    BEGIN
        SELECT RAISE(ABORT, 'a fork shares this fact');
    END;
    """,
    """
    CREATE TABLE prunings (
        number INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        facts INTEGER NOT NULL,
        payloads INTEGER NOT NULL,
        what TEXT NOT NULL
    ) STRICT;
    CREATE TABLE pruned (
        conversation INTEGER PRIMARY KEY REFERENCES conversations (number),
        keel INTEGER
    ) STRICT;
    CREATE TABLE forgotten (
        sha256 BLOB PRIMARY KEY
    ) STRICT, WITHOUT ROWID;
    """,
)
"""`facts.position` counts every fact and `tally.changes` every other change: held against the mark, they show a cut
tail. `losses` remembers what was found cut, for later writes would hide it. `prefixes` says whose facts, up to
`through`, stand before a fork's own: they are stored once, and stay while a fork needs them. `prunings` says what was
deleted because somebody asked, so that it does not look lost: `pruned` are conversations of which at most what forks
share is left, `forgotten` payloads that facts still name. A `keel` is the place of the last fact that was ever written,
kept without its words: by the last place a cut tail is told from none."""

LATEST = len(MIGRATIONS)


def version_of(connection: apsw.Connection) -> int:
    if not connection.table_exists("main", "schema_versions"):
        return 0
    found = connection.execute("SELECT max(version) FROM schema_versions").get
    return int(found or 0)


def migrate(connection: apsw.Connection, now_ms: int) -> None:
    """Bring an older schema forward, all steps or none."""
    with transaction(connection):
        # Another process may have done it while this one waited.
        for version in range(version_of(connection) + 1, LATEST + 1):
            connection.execute(MIGRATIONS[version - 1])
            connection.execute("INSERT INTO schema_versions VALUES (?, ?)", (version, now_ms))
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
