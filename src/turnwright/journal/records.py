"""What a journal gives besides facts: leases, summaries, what is damaged, what verification found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Literal, Protocol, TypeAlias

import msgspec

from turnwright.schema.ids import ConversationId, Seq
from turnwright.schema.verdicts import StopReason

LEASE_MS = 45_000
RENEW_MS = 15_000


class WallClock(Protocol):
    """Leases run out by this clock; facts bring their own time."""

    def wall_ms(self) -> int: ...


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes a conversation. `start_time` tells one process from a later one with the same pid."""

    pid: int
    host: str
    start_time: str
    label: str = ""
    since_ms: int = 0


class Lease:
    """The right to write one conversation, until it is released or lost to somebody else."""

    __slots__ = ("_give_back", "conversation_id", "generation", "last_seq", "released")

    def __init__(
        self,
        conversation_id: ConversationId,
        generation: int,
        last_seq: Seq,
        give_back: Callable[[Lease], Awaitable[None]],
    ) -> None:
        self.conversation_id = conversation_id
        self.generation = generation
        self.last_seq = last_seq
        self.released = False
        self._give_back = give_back

    async def release(self) -> None:
        """Let others write. Twice is once."""
        if not self.released:
            self.released = True
            await self._give_back(self)

    async def __aenter__(self) -> Lease:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()


class ConversationSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a list of conversations."""

    id: ConversationId
    opened_at: int
    last_at: int
    facts: int
    title: str = ""
    first_text: str = ""
    """What the user asked first."""
    workspace: str = ""
    model: str = ""
    last_reason: StopReason | None = None
    """Why the last turn ended; None while it runs, or where it was cut off."""
    held_by: Holder | None = None
    sent_by: ConversationId | None = None
    """It is a subagent of this conversation."""


class Damaged(msgspec.Struct, frozen=True, kw_only=True):
    """A record that cannot be trusted. It was skipped; the rest was read."""

    conversation_id: ConversationId
    seq: Seq
    why: str


SaidBy: TypeAlias = Literal["user", "model", "call", "result", "runtime"]


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A fact in which what was searched for stands."""

    conversation_id: ConversationId
    seq: Seq
    at: int
    said_by: SaidBy
    excerpt: str


Place: TypeAlias = Literal["folder", "database", "page", "log", "record", "blob", "lease", "mark"]


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is not as it was written."""

    place: Place
    message: str
    conversation_id: ConversationId | None = None
    seq: Seq | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at, and everything that was wrong with it."""

    folder: str
    conversations: int = 0
    facts: int = 0
    blobs: int = 0
    pages: int = 0
    log_frames: int = 0
    findings: tuple[Finding, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.findings
