"""What every journal offers, wherever it keeps its facts. The rules are in `turnwright.testing.journal_conformance`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from turnwright.journal.records import ConversationSummary, Damaged, Hit, Lease, Report
from turnwright.schema.facts import Fact, Recorded
from turnwright.schema.ids import ConversationId, Prefix, Seq

if TYPE_CHECKING:
    from turnwright.journal.stored import Pruned, Stored


class Journal(Protocol):
    async def acquire(
        self, conversation_id: ConversationId, *, create: bool = False, prefix: Prefix | None = None
    ) -> Lease:
        """JournalHeld names who else writes it. A holder that is dead is replaced at once. With `prefix` a new
        conversation begins after the facts of another, which it shares: every read of it shows them first, as its own,
        and its numbers go on from theirs."""
        ...

    async def append(
        self,
        lease: Lease,
        facts: Sequence[tuple[int, Fact]],
        blobs: Mapping[str, bytes] = ...,
        bodies: Sequence[bytes] = ...,
    ) -> Sequence[Seq]:
        """Durable on return, all or none; `at` is UTC milliseconds, a blob's key its SHA-256 in hex."""
        ...

    async def restore(self, lease: Lease, facts: Sequence[Recorded], blobs: Mapping[str, bytes] = ...) -> Sequence[Seq]:
        """Append facts of another journal, byte for byte and with their times; they get the next seqs."""
        ...

    async def since(self, conversation_id: ConversationId, seq: Seq = 0, limit: int | None = None) -> list[Recorded]:
        """What comes after `seq`, oldest first. Damaged records are left out; `damaged` tells which."""
        ...

    async def before(self, conversation_id: ConversationId, seq: Seq, limit: int) -> list[Recorded]:
        """The last `limit` facts before `seq`, oldest first."""
        ...

    async def tail(self, conversation_id: ConversationId, limit: int) -> list[Recorded]:
        """The last `limit` facts, oldest first."""
        ...

    async def opening(self, conversation_id: ConversationId) -> list[Recorded]:
        """What is needed to carry on: what opened it, a fork's own beginning, and everything the last compaction did
        not digest."""
        ...

    def follow(self, conversation_id: ConversationId, since: Seq = 0) -> AsyncIterator[Recorded]:
        """Everything after `since`, then whatever is appended, by any process, until the journal is closed."""
        ...

    async def blob(self, sha256: str) -> bytes: ...

    async def conversations(self, limit: int = ...) -> list[ConversationSummary]:
        """Those that were written last come first."""
        ...

    def damaged(self, conversation_id: ConversationId) -> list[Damaged]:
        """Records that reads of this journal had to leave out so far."""
        ...

    async def verify(self) -> Report:
        """Everything is read; it may take a while, and others go on meanwhile."""
        ...

    async def search(self, query: str, limit: int = ..., conversation_id: ConversationId | None = None) -> list[Hit]:
        """Facts with all these words, `"words in this order"` and `begin*`; the newest come first. A fact that forks
        share is found once, with whoever owns it."""
        ...

    async def reindex(self) -> int:
        """Make the index of words anew. How many facts it holds then."""
        ...

    async def stored(self) -> Stored:
        """How many bytes are what. Everything is read; others go on meanwhile."""
        ...

    async def prune(
        self, conversations: Sequence[ConversationId], *, captures: bool = False, dry_run: bool = False
    ) -> Pruned:
        """Delete them, or only the captured bytes of their attempts. What others need stays: what a fork shares, what
        somebody writes, payloads that any other fact names."""
        ...

    async def close(self) -> None:
        """Gives back every lease and finishes what was submitted. Twice is once."""
        ...
