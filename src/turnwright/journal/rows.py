"""A fact as a row: its bytes, its landmark, and the hash that ties it to the row before."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from turnwright.journal.records import Damaged
from turnwright.schema.facts import (
    SCHEMA_VERSION,
    ContextCompacted,
    ConversationOpened,
    Fact,
    KnownFact,
    Recorded,
    TurnEnded,
    TurnStarted,
    Unknown,
    decode_body,
    encode_body,
)
from turnwright.schema.ids import ConversationId, Seq

HASH_BYTES = 16
NO_HASH = bytes(HASH_BYTES)
"""What the first row of a conversation is tied to."""

OPENED, TURN_STARTED, TURN_ENDED, COMPACTED = 1, 2, 3, 4
"""Landmarks: facts that are looked up by kind. All others have none and stay out of that index."""


_LANDMARKS: dict[type, int] = {
    ConversationOpened: OPENED,
    TurnStarted: TURN_STARTED,
    TurnEnded: TURN_ENDED,
    ContextCompacted: COMPACTED,
}


def landmark_of(fact: Fact | Unknown) -> int | None:
    return _LANDMARKS.get(type(fact))


class Entry(NamedTuple):
    """A fact on its way to disk."""

    at: int
    schema_version: int
    landmark: int | None
    body: bytes


def entries(facts: Sequence[tuple[int, Fact]], bodies: Sequence[bytes]) -> list[Entry]:
    """`bodies` are those of the facts, or none where they are still to be encoded."""
    bodies = bodies or [encode_body(fact) for _, fact in facts]
    return [Entry(at, SCHEMA_VERSION, landmark_of(fact), body) for (at, fact), body in zip(facts, bodies, strict=True)]


def restored(facts: Sequence[Recorded]) -> list[Entry]:
    return [Entry(one.at, one.schema_version, landmark_of(one.fact), one.body) for one in facts]


class Row(NamedTuple):
    """A fact as it lies on disk. `link` is the hash of the row before, then its own.

    Both are kept so that a row can be judged alone: one flipped bit then costs one record, not two.
    """

    seq: Seq
    at: int
    schema_version: int
    landmark: int | None
    body: bytes
    link: bytes


def row_hash(before: bytes, conversation_id: ConversationId, seq: Seq, fact: Entry) -> bytes:
    head = b"%b%b\0%d %d %d %d\0" % (
        before,
        conversation_id.encode(),
        seq,
        fact.at,
        fact.schema_version,
        fact.landmark or 0,
    )
    return blake2b(head + fact.body, digest_size=HASH_BYTES).digest()


def fault_in(conversation_id: ConversationId, row: Row) -> str:
    """Why this row is not what was written; empty if it is."""
    claimed = Entry(row.at, row.schema_version, row.landmark, row.body)
    try:
        hashed = row_hash(row.link[:HASH_BYTES], conversation_id, row.seq, claimed)
    except TypeError:  # a flip in a record's head turns a column into a NULL, or bytes into text
        return "its columns are not those that were written"
    return "" if hashed == row.link[HASH_BYTES:] else "its bytes are not those that were written"


def read_row(conversation_id: ConversationId, row: Row) -> Recorded | Damaged:
    why = fault_in(conversation_id, row)
    if not why:
        try:
            fact: KnownFact | Unknown = decode_body(row.body)
        except msgspec.DecodeError as error:
            why = f"it cannot be read as a fact ({error})"
        else:
            return Recorded(
                conversation_id=conversation_id,
                seq=row.seq,
                at=row.at,
                fact=fact,
                body=row.body,
                schema_version=row.schema_version,
            )
    return Damaged(conversation_id=conversation_id, seq=row.seq, why=why)
