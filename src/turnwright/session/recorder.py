"""From the loop's facts to the journal: stamped, masked, large payloads set apart, then shown to whoever watches."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from turnwright.schema.facts import (
    AttemptEnded,
    BlobRef,
    Fact,
    KnownFact,
    Recorded,
    ToolEnded,
    Unknown,
    decode_body,
    encode_body,
)
from turnwright.schema.ids import Seq
from turnwright.schema.masking import Masker
from turnwright.session.broadcast import Broadcast
from turnwright.session.ports import Captures, Journal, Lease, WallClock

BLOB_FROM_BYTES = 8 * 1024
"""Stored apart an output is compressed, and stored once however often it comes: files that are read again and again."""
FAILED_BLOB_FROM_BYTES = 32 * 1024
"""Of a call that failed, faces show the last line as it happens."""

Known = TypeVar("Known", bound=KnownFact | Unknown)
_Encoded: TypeAlias = tuple[KnownFact, bytes]
"""A fact and its body: encoded once, for the masker, the journal and whoever watches."""


class Recorder:
    """`kernel.ports.Record` for one conversation. What it returns is durable; what it shows was durable before."""

    def __init__(
        self,
        journal: Journal[Any],
        lease: Lease,
        clock: WallClock,
        masker: Masker,
        broadcast: Broadcast,
        captures: Captures,
    ) -> None:
        self._journal = journal
        self._lease = lease
        self._clock = clock
        self._masker = masker
        self._broadcast = broadcast
        self._captures = captures
        self._held: list[Fact] = []

    def with_next(self, fact: Fact) -> None:
        """Record `fact` in one commit with whatever is recorded next, before it."""
        self._held.append(fact)

    async def __call__(self, *facts: Fact) -> Sequence[Seq]:
        held, self._held = self._held, []
        seqs = await self._append(*held, *facts)
        return seqs[len(held) :]

    async def past(self, facts: Sequence[tuple[int, Fact]], blobs: Mapping[str, bytes]) -> Sequence[Seq]:
        """What happened elsewhere, each fact at its own time; all or none. `blobs` are payloads that facts name."""
        payloads = dict(blobs)
        prepared = [self._without_payload(*one, payloads) for one in self._masked([fact for _, fact in facts])]
        stamped = [(at, fact) for (at, _), (fact, _) in zip(facts, prepared, strict=True)]
        return await self._journal.append(self._lease, stamped, payloads, [body for _, body in prepared])

    async def _append(self, *facts: Fact) -> Sequence[Seq]:
        at, conversation_id = self._clock.wall_ms(), self._lease.conversation_id
        blobs: dict[str, bytes] = {}
        prepared = [self._without_payload(*one, blobs) for one in self._masked(facts)]
        bodies = [body for _, body in prepared]
        seqs = await self._journal.append(self._lease, [(at, fact) for fact, _ in prepared], blobs, bodies)
        if self._broadcast.watched:
            for seq, (fact, body) in zip(seqs, prepared, strict=True):
                self._broadcast.emit(Recorded(conversation_id=conversation_id, seq=seq, at=at, fact=fact, body=body))
        return seqs

    def _masked(self, facts: Sequence[Fact]) -> list[_Encoded]:
        """What is recorded together is looked over together; each by itself only where something has to go."""
        bodies = [encode_body(fact) for fact in facts]
        together = b"\n".join(bodies)
        if self._masker.encoded(together) is together:
            return list(zip(facts, bodies, strict=True))  # type: ignore[arg-type]  # every Fact is in the closed union
        return [self._masked_alone(fact, body) for fact, body in zip(facts, bodies, strict=True)]

    def _masked_alone(self, fact: Fact, body: bytes) -> _Encoded:
        hidden = self._masker.encoded(body)
        seen = fact if hidden == body else decode_body(hidden)
        assert isinstance(seen, Fact), "masking changed a fact's type"
        return seen, hidden  # type: ignore[return-value]  # every Fact that exists is in the closed union

    def _without_payload(self, fact: KnownFact, body: bytes, blobs: dict[str, bytes]) -> _Encoded:
        """Large payloads are stored once under their hash, in the same transaction as the fact that names them (F5)."""
        match fact:
            case ToolEnded(output=output, outcome=outcome) if len(output) > BLOB_FROM_BYTES // 4:
                data = output.encode()
                if len(data) <= (BLOB_FROM_BYTES if outcome == "ok" else FAILED_BLOB_FROM_BYTES):
                    return fact, body
                return _encoded(msgspec.structs.replace(fact, output="", output_blob=_set_apart(data, blobs)))
            case AttemptEnded():
                captured = self._captures.take(self._lease.conversation_id, fact)
                if not captured:
                    return fact, body
                return _encoded(msgspec.structs.replace(fact, capture=_set_apart(captured, blobs)))
            case _:
                return fact, body


def _encoded(fact: KnownFact) -> _Encoded:
    return fact, encode_body(fact)


def _set_apart(data: bytes, blobs: dict[str, bytes]) -> BlobRef:
    sha256 = hashlib.sha256(data).hexdigest()
    blobs[sha256] = data
    return BlobRef(sha256=sha256, size_bytes=len(data))


async def with_payload(fact: Known, journal: Journal[Any]) -> Known:
    """The fact as it was before its payload was set apart."""
    match fact:
        case ToolEnded(output_blob=BlobRef() as ref):
            data = await journal.blob(ref.sha256)
            return msgspec.structs.replace(fact, output=data.decode(), output_blob=None)
        case _:
            return fact
