"""The SQLite file: how it is opened, what is demanded of it, and what its errors mean to a person."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import apsw

from turnwright.journal.migrations import APPLICATION_ID, LATEST, migrate, version_of
from turnwright.schema.errors import JournalDamaged, JournalError, JournalTooNew, JournalUnwritable

DATABASE = "journal.db"
LOG = "journal.db-wal"
PAGE_BYTES = 4096
CHECKSUM_BYTES = 8
CHECKSUM_VFS = "cksmvfs"
OLDEST_SQLITE = (3, 51, 3)
"""3.7.0 to 3.51.2 can corrupt a write-ahead log that two processes use at the moment it is reset."""

_PRAGMAS = (
    "busy_timeout=5000",
    # Pages carry checksums, which `verify` reads. In daily use a bad page must cost only its damaged records, and
    # those are found by their own hashes; a refused page would cost its neighbours too.
    "checksum_verification=OFF",
    "foreign_keys=ON",
    "mmap_size=0",
    "cell_size_check=ON",
    "trusted_schema=OFF",
    "synchronous=FULL",
    # The writer checkpoints when nobody waits for it.
    "wal_autocheckpoint=0",
    "cache_size=-2000",
)


_CODES = apsw.mapping_result_codes | apsw.mapping_extended_result_codes


def require_library(version: str = "") -> None:
    found = version or apsw.sqlite_lib_version()
    if tuple(int(number) for number in found.split(".")[:3]) < OLDEST_SQLITE:
        raise JournalUnwritable(
            f"This Python's APSW carries SQLite {found}, which can corrupt a journal that two processes use.",
            remedy="Install apsw 3.51.3 or newer from its wheel.",
        )


@cache
def register_checksums() -> None:
    """Give pages a checksum as they are written: SQLite by itself does not notice content rot."""
    assert apsw.__file__ is not None
    library = Path(apsw.__file__).with_name("sqlite_extra_binaries") / "cksumvfs.so"
    if not library.exists():
        library = _registered_checksums()
    loader = apsw.Connection(":memory:")
    loader.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
    loader.load_extension(str(library))
    loader.close()


def _registered_checksums() -> Path:
    """Where this platform keeps it. Asked only where the common place is empty: the import costs 30 ms."""
    import apsw.sqlite_extra

    try:
        return Path(apsw.sqlite_extra.path("cksumvfs"))
    except (LookupError, apsw.sqlite_extra.NotAvailable):
        raise JournalUnwritable(
            "This build of APSW lacks SQLite's checksum extension (cksumvfs), without which a journal's rot stays "
            "unseen.",
            remedy="Install apsw from its wheel.",
        ) from None


def connect(path: Path, *, flags: int, vfs: str = CHECKSUM_VFS) -> apsw.Connection:
    require_library()
    register_checksums()
    connection = apsw.Connection(str(path), flags=flags, vfs=vfs, statementcachesize=64)
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def open_writer(path: Path, now_ms: int) -> apsw.Connection:
    """The write connection of an existing database, brought to the latest schema."""
    with explained(path):
        connection = connect(path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            _check_ours(connection, path)
            if version_of(connection) < LATEST:
                migrate(connection, now_ms)
        except BaseException:
            connection.close()
            raise
        return connection


def open_reader(path: Path) -> apsw.Connection:
    with explained(path):
        return _readable(path)


def _readable(path: Path) -> apsw.Connection:
    try:
        connection = connect(path, flags=apsw.SQLITE_OPEN_READONLY)
        # Whoever only reads must leave the log as it is: it may be evidence.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        _check_ours(connection, path)
        return connection
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        log = path.with_name(LOG)
        if os.access(path.parent, os.W_OK) or (log.exists() and log.stat().st_size):
            raise
    # A folder we may not write to, and no log beside the database: nobody can be writing it.
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = connect(Path(f"{path.as_uri()}?immutable=1"), flags=flags)
    _check_ours(connection, path)
    return connection


def create(path: Path, now_ms: int) -> None:
    """A whole new database, or none: it is made under another name and then moved into place."""
    new = path.with_name(path.name + ".new")
    for leftover in path.parent.glob(new.name + "*"):
        leftover.unlink()
    with explained(path):
        connection = connect(new, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
        try:
            new.chmod(0o600)
            connection.reserve_bytes(reserve=CHECKSUM_BYTES)
            connection.execute(f"PRAGMA page_size={PAGE_BYTES}; PRAGMA journal_mode=WAL").fetchall()
            migrate(connection, now_ms)
        finally:
            connection.close()
    new.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_ours(connection: apsw.Connection, path: Path) -> None:
    if connection.pragma("application_id") != APPLICATION_ID:
        raise JournalDamaged(
            f"{path} is an SQLite database, but not a Turnwright journal.",
            remedy="Move it away, or point to another data folder.",
        )
    version = version_of(connection)
    if version > LATEST:
        raise JournalTooNew(
            f"{path} was written by a newer Turnwright (schema {version}; this one knows {LATEST}).",
            remedy="Upgrade Turnwright, or use another data folder.",
        )


@contextmanager
def explained(path: Path) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise explain(error, path) from error
    except OSError as error:
        raise JournalUnwritable(
            f"The journal {path} cannot be used: {error.strerror or error}.",
            remedy="Check the folder's permissions and its disk.",
        ) from error


def explain(error: apsw.Error, path: Path) -> JournalError | apsw.Error:
    """What the outside world did to us, in words; anything else is our own bug and stays what it is."""
    extended: int = getattr(error, "extendedresult", 0)
    code = str(_CODES.get(extended, type(error).__name__))
    match error:
        case apsw.FullError() | apsw.IOError() if (
            isinstance(error, apsw.FullError) or extended == apsw.SQLITE_IOERR_SHMSIZE
        ):
            message, remedy = "has no space left", "Free some disk space; what was acknowledged is safe."
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError():
            message = "cannot be written or opened"
            remedy = "Make its folder and the files in it writable for this user, or use another data folder."
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            message = "is kept locked by another process"
            remedy = "End the process that is stuck, then try again."
        case apsw.NotADBError() | apsw.CorruptError() | apsw.FormatError():
            return _damaged(path, code)
        case apsw.IOError() if extended in (apsw.SQLITE_IOERR_DATA, apsw.SQLITE_IOERR_CORRUPTFS):
            return _damaged(path, code)
        case apsw.IOError():
            message, remedy = "met an I/O error", "Check the disk; what was acknowledged is safe."
        case _:
            return error
    return JournalUnwritable(f"The journal {path} {message} ({code}).", remedy=remedy)


def _damaged(path: Path, code: str) -> JournalDamaged:
    return JournalDamaged(
        f"The journal {path} is not what was written ({code}).",
        remedy="Run `turnwright journal verify` to see what is lost, and restore it from a backup if you have one.",
    )
