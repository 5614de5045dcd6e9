"""One thread owns the one write connection. Whatever waits is committed together, then acknowledged together."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import apsw

from turnwright.journal import leases
from turnwright.journal.database import explain, explained
from turnwright.journal.jobs import Append, Change, Job, SqliteLease
from turnwright.journal.log import LogAhead
from turnwright.journal.marks import Marks
from turnwright.journal.records import RENEW_MS, WallClock
from turnwright.journal.rows import row_hash
from turnwright.journal.transactions import transaction
from turnwright.schema.errors import JournalError, JournalUnwritable, TurnwrightError

BUSY_POLL_S = 0.001
BUSY_POLLS_MAX = 60_000
"""A write lock that is held for a minute is not traffic but a process that is stuck."""
CHECKPOINT_FRAMES = 1_000
CHECKPOINT_POLLS_MAX = 50
CHECKPOINT_RETRY_FRAMES = 250
LOG_FRAMES_MAX = 16_000
"""About 64 MiB that could not be moved into the database: time to say so instead of filling the disk."""

_INSERT_FACT = (
    "INSERT INTO facts (conversation, seq, at, schema_version, landmark, link, body) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_BLOB = "INSERT OR IGNORE INTO blobs (sha256, size_bytes, compressed, data) VALUES (?, ?, ?, ?)"
_COUNT_CHANGE = "UPDATE tally SET changes = changes + 1 RETURNING changes"


class Writer:
    """`submit` is called on the event loop. On the writer thread, `committing` is told the last position of a commit
    before it is marked, and `deliver` gets the jobs that are done."""

    def __init__(
        self,
        path: Path,
        connection: apsw.Connection,
        marks: Marks,
        clock: WallClock,
        committing: Callable[[int], None],
        deliver: Callable[[Sequence[Job[Any]]], None],
    ) -> None:
        self.leases: dict[int, SqliteLease] = {}
        self._path = path
        self._connection = connection
        self._marks = marks
        self._clock = clock
        self._committing = committing
        self._deliver = deliver
        self._jobs: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._orphans: list[tuple[int, int]] = []
        """Leases that are on disk and that nobody got, because their mark failed: they are given back with the next
        change, or whoever tries again would be told that we hold it."""
        self._stopping = False
        self._broken = False
        self._renewed_ms = clock.wall_ms()
        self._log = LogAhead(path)
        self._frames = 0
        self._checkpoint_at = CHECKPOINT_FRAMES
        self._checkpoint_error: Exception | None = None
        self._polls_max = BUSY_POLLS_MAX
        self._never = threading.Event()
        connection.set_wal_hook(self._log_grew)
        connection.set_busy_handler(self._wait)

    def submit(self, job: Job[Any]) -> None:
        if self._broken:
            raise JournalUnwritable(
                f"The journal {self._path} cannot go on: its writer stopped.", remedy="Start Turnwright again."
            )
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def stop(self) -> None:
        """Finish what was submitted, then close the files. Blocks."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
        with explained(self._path):
            try:
                # Closing the last connection moves the log into the database.
                self._marks.checkpoint(running=True)
                self._marks.sync()
            finally:
                self._marks.close()
                self._connection.close()

    def _run(self) -> None:
        jobs: list[Job[Any]] | None = None
        try:
            while (jobs := self._next()) is not None:
                self._serve(jobs)
                self._tend()
        finally:
            if not self._stopping:
                self._break(jobs or [])

    def _next(self) -> list[Job[Any]] | None:
        """Everything that waits; empty when it is time to look after the leases, None when it is time to stop."""
        if self._stopping:
            return None
        jobs: list[Job[Any]] = []
        with contextlib.suppress(Empty):
            job = self._jobs.get(timeout=RENEW_MS / 1000 if self.leases else None)
            while job is not None:
                jobs.append(job)
                job = self._jobs.get_nowait()
            self._stopping = True
        return jobs

    def _break(self, jobs: list[Job[Any]]) -> None:
        """A bug of ours ended the thread, which shows it. Nobody is left waiting for it."""
        self._broken = True
        with contextlib.suppress(Empty):
            while job := self._jobs.get_nowait():
                jobs.append(job)
        waiting = [job for job in jobs if not job.delivered]
        for job in waiting:
            job.error = JournalError(
                f"The writer of the journal {self._path} stopped by an error of its own; nothing more is recorded.",
                remedy="Start Turnwright again, and report this.",
            )
        self._hand_over(waiting)

    def _hand_over(self, jobs: Sequence[Job[Any]]) -> None:
        for job in jobs:
            job.delivered = True
        self._deliver(jobs)

    def _serve(self, jobs: Sequence[Job[Any]]) -> None:
        """In the order of submission; appends that stand together are one transaction."""
        appends: list[Append] = []
        for job in jobs:
            if isinstance(job, Append):
                appends.append(job)
                continue
            if appends:
                self._serve_appends(appends)
                appends = []
            assert isinstance(job, Change)
            self._serve_change(job)
        if appends:
            self._serve_appends(appends)

    def _serve_appends(self, jobs: list[Append]) -> None:
        ends: dict[SqliteLease, tuple[int, bytes]] = {}
        try:
            with self._transaction():
                for job in jobs:
                    self._insert(job, ends)
        except (apsw.Error, TurnwrightError) as error:
            if len(jobs) > 1:
                # One bad append must not take the others down: try each by itself.
                for job in jobs:
                    self._serve_appends([job])
                return
            jobs[0].error = self._explained(error)
        else:
            self._committed(jobs, ends)
        self._hand_over(jobs)

    def _committed(self, jobs: Sequence[Append], ends: dict[SqliteLease, tuple[int, bytes]]) -> None:
        """From here on the facts are on disk, whatever else fails; without their mark they are not acknowledged."""
        for lease, (seq, last_hash) in ends.items():
            lease.last_seq, lease.last_hash = seq, last_hash
        if not ends:
            return
        position = self._connection.last_insert_rowid()
        self._committing(position)
        try:
            with explained(self._marks.path):
                self._marks.facts(position, lease.conversation_id, seq)
        except JournalUnwritable as error:
            for job in jobs:
                job.error = job.error or error

    def _insert(self, job: Append, ends: dict[SqliteLease, tuple[int, bytes]]) -> None:
        lease, execute = job.lease, self._connection.execute
        if lease not in ends and leases.generation_of(self._connection, lease.number) != lease.generation:
            job.error = leases.taken_over(self._connection, lease.number, lease.conversation_id)
            return
        seq, last_hash = ends.get(lease) or (lease.last_seq, lease.last_hash)
        first = seq + 1
        for blob in job.blobs:
            execute(_INSERT_BLOB, blob)
        for seq, fact in enumerate(job.entries, first):
            own = row_hash(last_hash, lease.conversation_id, seq, fact)
            at, schema_version, landmark, body = fact
            execute(_INSERT_FACT, (lease.number, seq, at, schema_version, landmark, last_hash + own, body))
            last_hash = own
        ends[lease] = (seq, last_hash)
        job.answer = range(first, seq + 1)

    def _serve_change(self, job: Change[Any]) -> None:
        try:
            job.answer = self._change(job.work)
            if isinstance(job.answer, SqliteLease):
                # Renewed from now on, by this thread, even if nothing else ever happens.
                self.leases[job.answer.number] = job.answer
        except (apsw.Error, TurnwrightError) as error:
            job.error = self._explained(error)
        self._hand_over([job])

    def _change(self, work: Callable[[apsw.Connection], Any]) -> Any:
        with self._transaction():
            for number, generation in self._orphans:
                leases.release(self._connection, number, generation)
            answer = work(self._connection)
            changes = self._connection.execute(_COUNT_CHANGE).get
        self._orphans.clear()
        try:
            with explained(self._marks.path):
                self._marks.changes(changes)
        except JournalUnwritable:
            if isinstance(answer, SqliteLease):
                self._orphans.append((answer.number, answer.generation))
            raise
        return answer

    def _transaction(self) -> AbstractContextManager[None]:
        if self._checkpoint_error is not None and self._frames > LOG_FRAMES_MAX:
            raise self._checkpoint_error
        return transaction(self._connection)

    def _wait(self, polls: int) -> bool:
        """Asked by SQLite while another process holds the lock. Its own handler sleeps up to 100 ms, and loses every
        race against a process that is quick to ask again."""
        self._never.wait(BUSY_POLL_S)
        return polls < self._polls_max

    def _explained(self, error: Exception) -> Exception:
        return explain(error, self._path) if isinstance(error, apsw.Error) else error

    def _log_grew(self, _connection: apsw.Connection, _name: str, frames: int) -> int:
        self._frames = frames
        return apsw.SQLITE_OK

    def _tend(self) -> None:
        """Between commits, when those who waited have their answer."""
        now_ms = self._clock.wall_ms()
        # A clock that was set back must not stop renewal.
        if self.leases and abs(now_ms - self._renewed_ms) >= RENEW_MS:
            self._renewed_ms = now_ms
            self._renew(now_ms)
        if self._frames >= self._checkpoint_at:
            self._checkpoint()
        elif self._frames:
            # Only an optimisation: where the disk is full, the next append says so.
            with contextlib.suppress(apsw.Error, OSError):
                self._log.extend(self._connection, self._frames)

    def _renew(self, now_ms: int) -> None:
        def work(connection: apsw.Connection) -> None:
            for number, lease in list(self.leases.items()):
                if not leases.renew(connection, number, lease.generation, now_ms):
                    self.leases.pop(number, None)

        # What fails now is tried again in 15 s; should it never succeed, the lease runs out and appends say so.
        with contextlib.suppress(apsw.Error, TurnwrightError):
            self._change(work)

    def _checkpoint(self) -> None:
        """Move the log into the database and empty it, so that nothing of an older log lies behind a newer one."""
        self._checkpoint_at = self._frames + CHECKPOINT_RETRY_FRAMES
        self._polls_max = CHECKPOINT_POLLS_MAX
        try:
            self._marks.checkpoint(running=True)
            self._marks.sync()
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._marks.checkpoint(running=False)
        except apsw.BusyError:
            pass  # Somebody reads the log; there will be another moment.
        except (apsw.Error, OSError) as error:
            self._checkpoint_error = self._explained(error)
        else:
            self._frames, self._checkpoint_at, self._checkpoint_error = 0, CHECKPOINT_FRAMES, None
        finally:
            self._polls_max = BUSY_POLLS_MAX
