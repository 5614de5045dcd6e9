"""What a conversation needs besides the turn loop's own ports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol, TypeVar

from turnwright.schema.facts import AttemptEnded, Fact, Recorded
from turnwright.schema.ids import ConversationId, Prefix, Seq


class Lease(Protocol):
    """The right to write one conversation."""

    @property
    def conversation_id(self) -> ConversationId: ...

    async def release(self) -> None: ...


Held = TypeVar("Held", bound=Lease)


class Journal(Protocol[Held]):
    """Append-only facts. Every implementation passes `turnwright.testing.journal_conformance`."""

    async def acquire(
        self, conversation_id: ConversationId, *, create: bool = False, prefix: Prefix | None = None
    ) -> Held:
        """Raises JournalHeld, naming the holder, or InputError where there is no such conversation. With `prefix` a new
        one begins after the facts of another, which it shares."""
        ...

    async def append(
        self,
        lease: Held,
        facts: Sequence[tuple[int, Fact]],
        blobs: Mapping[str, bytes] = ...,
        bodies: Sequence[bytes] = ...,
    ) -> Sequence[Seq]:
        """Durable on return, all or none. `blobs` are stored with the facts that name them. `bodies` are the facts as
        `encode_body` gives them, where the caller has them already."""
        ...

    async def since(
        self, conversation_id: ConversationId, seq: Seq = 0, limit: int | None = None
    ) -> Sequence[Recorded]: ...

    async def opening(self, conversation_id: ConversationId) -> Sequence[Recorded]:
        """What is needed to carry on: the last compaction onward, not the whole past."""
        ...

    def follow(self, conversation_id: ConversationId, since: Seq = 0) -> AsyncIterator[Recorded]: ...

    async def blob(self, sha256: str) -> bytes: ...


class Captures(Protocol):
    """Where the bytes of attempts wait to be stored with their end."""

    def take(self, lineage: str, ended: AttemptEnded) -> bytes | None:
        """Redacted; None where none are to be kept."""
        ...


class NoCaptures:
    """For models that have no bytes."""

    def take(self, lineage: str, ended: AttemptEnded) -> bytes | None:
        del lineage, ended
        return None


class WallClock(Protocol):
    def wall_ms(self) -> int: ...
