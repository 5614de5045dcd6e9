"""All or none."""

from __future__ import annotations

from types import TracebackType

import apsw


class transaction:  # noqa: N801 - reads as what it does; a class, for a generator costs each commit three times as much
    """Takes the write lock at once, so that nothing read in it can be stale."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:
            # After some errors SQLite has rolled back by itself.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
