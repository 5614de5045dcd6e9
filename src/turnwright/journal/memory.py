"""A journal that is gone with its process. Same rules, no disk: for tests and for runs that ask for no trace."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import MappingProxyType, TracebackType

import msgspec

from turnwright.journal import leases
from turnwright.journal import memory_keeping as keeping
from turnwright.journal.processes import myself
from turnwright.journal.records import (
    LEASE_MS,
    ConversationSummary,
    Damaged,
    Hit,
    Holder,
    Lease,
    Report,
    WallClock,
)
from turnwright.journal.rows import Entry, entries, restored
from turnwright.journal.search.said import said
from turnwright.journal.search.words import excerpt, matches, wanted
from turnwright.journal.stored import Pruned, Stored
from turnwright.journal.stretches import payload_pruned
from turnwright.journal.summaries import summary
from turnwright.schema.errors import JournalDamaged
from turnwright.schema.facts import (
    ContextCompacted,
    ConversationOpened,
    Fact,
    Recorded,
    TurnEnded,
    TurnStarted,
    decode_body,
)
from turnwright.schema.ids import ConversationId, Prefix, Seq

_NO_BLOBS: Mapping[str, bytes] = MappingProxyType({})


class _Conversation:
    def __init__(self, shared: Sequence[Recorded] = (), prefix: Prefix | None = None) -> None:
        self.facts: list[Recorded] = list(shared)
        self.shared = len(shared)
        """How many of them are another's."""
        self.prefix = prefix
        """Who owns the last of them."""
        self.generation = 0
        self.holder: Holder | None = None
        self.expires_at = 0

    @property
    def own(self) -> list[Recorded]:
        return self.facts[self.shared :]


class Memory:
    """What several journals share, as processes share a database."""

    def __init__(self) -> None:
        self.conversations: dict[ConversationId, _Conversation] = {}
        """Those that were written last come last."""
        self.blobs: dict[str, bytes] = {}
        self.forgotten: set[str] = set()
        """Payloads that were pruned while facts still name them."""
        self.bells: set[asyncio.Event] = set()

    def wake(self) -> None:
        for bell in self.bells:
            bell.set()


class MemoryJournal:
    def __init__(self, *, clock: WallClock, memory: Memory | None = None, label: str = "") -> None:
        self._clock = clock
        self.memory = memory or Memory()
        self._me = myself(label)
        self._leases: set[Lease] = set()
        self._closed = False

    async def __aenter__(self) -> MemoryJournal:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        for lease in list(self._leases):
            await lease.release()
        self._closed = True
        self.memory.wake()

    async def acquire(
        self, conversation_id: ConversationId, *, create: bool = False, prefix: Prefix | None = None
    ) -> Lease:
        known = self.memory.conversations.get(conversation_id)
        if not create and not (known and known.own):
            raise leases.no_conversation(conversation_id)
        shared = self._shared(conversation_id, prefix) if prefix and not known else ()
        conversation = self.memory.conversations.setdefault(
            conversation_id, _Conversation(shared, self._owned(prefix) if shared else None)
        )
        now_ms = self._clock.wall_ms()
        if conversation.holder is not None and conversation.expires_at > now_ms:
            raise leases.held_by(conversation_id, conversation.holder)
        conversation.generation += 1
        conversation.holder = msgspec.structs.replace(self._me, since_ms=now_ms)
        conversation.expires_at = now_ms + LEASE_MS
        lease = Lease(conversation_id, conversation.generation, len(conversation.facts), self._give_back)
        self._leases.add(lease)
        return lease

    def _shared(self, conversation_id: ConversationId, prefix: Prefix) -> Sequence[Recorded]:
        facts = self._facts(prefix.conversation_id)
        if not 1 <= prefix.through <= len(facts):
            raise leases.no_such_fact(prefix, len(facts))
        return [msgspec.structs.replace(each, conversation_id=conversation_id) for each in facts[: prefix.through]]

    def _owned(self, prefix: Prefix | None) -> Prefix | None:
        """By whoever owns the last shared fact: a fork of a fork may outlive the one between."""
        while prefix is not None and (found := self.memory.conversations.get(prefix.conversation_id)) is not None:
            if found.prefix is None or prefix.through > found.prefix.through:
                break
            prefix = Prefix(found.prefix.conversation_id, prefix.through)
        return prefix

    async def _give_back(self, lease: Lease) -> None:
        self._leases.discard(lease)
        conversation = self.memory.conversations[lease.conversation_id]
        if conversation.generation == lease.generation:
            conversation.holder = None

    async def append(
        self,
        lease: Lease,
        facts: Sequence[tuple[int, Fact]],
        blobs: Mapping[str, bytes] = _NO_BLOBS,
        bodies: Sequence[bytes] = (),
    ) -> Sequence[Seq]:
        return self._append(lease, entries(facts, bodies), blobs)

    async def restore(
        self, lease: Lease, facts: Sequence[Recorded], blobs: Mapping[str, bytes] = _NO_BLOBS
    ) -> Sequence[Seq]:
        return self._append(lease, restored(facts), blobs)

    def _append(self, lease: Lease, rows: Sequence[Entry], blobs: Mapping[str, bytes]) -> Sequence[Seq]:
        assert not self._closed, "the journal was closed"
        assert not lease.released, "the lease was given back"
        assert rows, "an append without facts"
        name = lease.conversation_id
        conversation = self.memory.conversations[name]
        if conversation.generation != lease.generation:
            assert conversation.holder is not None, "a lease that was taken over has a holder"
            raise leases.held_by(name, conversation.holder)
        conversation.expires_at = self._clock.wall_ms() + LEASE_MS
        for sha256, data in blobs.items():
            assert hashlib.sha256(data).hexdigest() == sha256, f"a payload under the wrong name {sha256}"
        self.memory.blobs.update(blobs)
        first = len(conversation.facts) + 1
        for seq, one in enumerate(rows, first):
            fact = decode_body(one.body)
            conversation.facts.append(
                Recorded(
                    conversation_id=name,
                    seq=seq,
                    at=one.at,
                    fact=fact,
                    body=one.body,
                    schema_version=one.schema_version,
                )
            )
        lease.last_seq = len(conversation.facts)
        self.memory.conversations[name] = self.memory.conversations.pop(name)
        self.memory.wake()
        return range(first, lease.last_seq + 1)

    async def since(self, conversation_id: ConversationId, seq: Seq = 0, limit: int | None = None) -> list[Recorded]:
        return self._facts(conversation_id)[seq : None if limit is None else seq + limit]

    async def before(self, conversation_id: ConversationId, seq: Seq, limit: int) -> list[Recorded]:
        return self._facts(conversation_id)[: max(seq - 1, 0)][-limit:]

    async def tail(self, conversation_id: ConversationId, limit: int) -> list[Recorded]:
        return self._facts(conversation_id)[-limit:]

    async def opening(self, conversation_id: ConversationId) -> list[Recorded]:
        facts = self._facts(conversation_id)
        own = self.memory.conversations[conversation_id].shared
        for recorded in reversed(facts):
            match recorded.fact:
                case ContextCompacted(through_seq=through) if 0 < through < recorded.seq:
                    head = [facts[at] for at in dict.fromkeys((0, own)) if at < through]
                    return head + facts[through:]
                case _:
                    continue
        return list(facts)

    async def follow(self, conversation_id: ConversationId, since: Seq = 0) -> AsyncIterator[Recorded]:
        bell = asyncio.Event()
        self.memory.bells.add(bell)
        try:
            while not self._closed:
                bell.clear()
                for recorded in self._facts(conversation_id)[since:]:
                    yield recorded
                    since = recorded.seq
                if len(self._facts(conversation_id)) == since:
                    await bell.wait()
        finally:
            self.memory.bells.discard(bell)

    async def blob(self, sha256: str) -> bytes:
        try:
            return self.memory.blobs[sha256]
        except KeyError:
            if sha256 in self.memory.forgotten:
                raise payload_pruned(sha256) from None
            raise JournalDamaged(f"The payload {sha256} is missing from the journal.") from None

    async def conversations(self, limit: int = 50) -> list[ConversationSummary]:
        now_ms = self._clock.wall_ms()
        written = [item for item in reversed(self.memory.conversations.items()) if item[1].own]
        return [_summary(name, conversation, now_ms) for name, conversation in written[:limit]]

    def damaged(self, conversation_id: ConversationId) -> list[Damaged]:
        """Memory does not rot."""
        return []

    async def verify(self) -> Report:
        conversations = self.memory.conversations.values()
        return Report(
            folder="",
            conversations=sum(bool(conversation.own) for conversation in conversations),
            facts=sum(len(conversation.own) for conversation in conversations),
            blobs=len(self.memory.blobs),
        )

    async def search(self, query: str, limit: int = 20, conversation_id: ConversationId | None = None) -> list[Hit]:
        asked = wanted(query)
        hits = [
            Hit(conversation_id=name, seq=one.seq, at=one.at, said_by=found[0], excerpt=excerpt(found[1], asked))
            for name, conversation in self.memory.conversations.items()
            for one in (conversation.own if conversation_id is None else conversation.facts)
            if conversation_id in (None, name)
            and (found := said(one.fact, self.memory.blobs.get)) is not None
            and matches(found[1], asked)
        ]
        return sorted(hits, key=lambda hit: (-hit.at, hit.conversation_id, -hit.seq))[:limit]

    async def reindex(self) -> int:
        """There is no index; what one would hold."""
        facts = (one.fact for conversation in self.memory.conversations.values() for one in conversation.own)
        return sum(said(fact, self.memory.blobs.get) is not None for fact in facts)

    async def stored(self) -> Stored:
        return keeping.stored(self.memory.conversations, self.memory.blobs, await self.conversations(2**62))

    async def prune(
        self, conversations: Sequence[ConversationId], *, captures: bool = False, dry_run: bool = False
    ) -> Pruned:
        now_ms = self._clock.wall_ms()
        holders = {
            name: one.holder if one.expires_at > now_ms else None for name, one in self.memory.conversations.items()
        }
        memory = self.memory
        found = keeping.pruned(
            memory.conversations,
            memory.blobs,
            memory.forgotten,
            holders,
            conversations,
            captures=captures,
            dry_run=dry_run,
        )
        if not dry_run:
            for name in found.conversations:
                del self.memory.conversations[name]
        return found

    def _facts(self, conversation_id: ConversationId) -> list[Recorded]:
        try:
            return self.memory.conversations[conversation_id].facts
        except KeyError:
            raise leases.no_conversation(conversation_id) from None


def _summary(name: ConversationId, conversation: _Conversation, now_ms: int) -> ConversationSummary:
    def first(kind: type[Fact], facts: Iterable[Recorded]) -> Recorded | None:
        return next((recorded for recorded in facts if isinstance(recorded.fact, kind)), None)

    facts = conversation.facts
    return summary(
        name,
        opened=first(ConversationOpened, reversed(facts)),
        first_turn=first(TurnStarted, facts),
        last_turn=first(TurnStarted, reversed(facts)),
        last_end=first(TurnEnded, reversed(facts)),
        last_seq=facts[-1].seq,
        last_at=facts[-1].at,
        held_by=conversation.holder if conversation.expires_at > now_ms else None,
    )
