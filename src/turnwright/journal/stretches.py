"""What a conversation is read from: rows, each as a record or as damage, from one owner after another."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from turnwright.journal.records import Damaged
from turnwright.journal.rows import Row, read_row
from turnwright.schema.errors import InputError, JournalDamaged
from turnwright.schema.facts import Recorded
from turnwright.schema.ids import ConversationId, Seq

Read: TypeAlias = Recorded | Damaged

END: Seq = 2**62


class Stretch(NamedTuple):
    """Facts that one conversation owns and another shows: all of them, or what a fork shares."""

    number: int
    owner: ConversationId
    after: Seq
    through: Seq


def first_facts(stretches: Sequence[Stretch], through: Seq) -> list[Seq]:
    """The first fact of all and the first of its own, where they stand before the cut: they say what was opened."""
    return [seq for seq in dict.fromkeys((1, stretches[-1].after + 1)) if seq <= through]


def judged(conversation_id: ConversationId, rows: Iterable[Row], expected: Seq) -> list[Read]:
    """Each row as a record or as damage; a seq that is not there is damage too."""
    found: list[Read] = []
    for row in rows:
        read = read_row(conversation_id, row)
        if isinstance(read, Recorded):
            found += missing(conversation_id, expected, read.seq - 1)
        else:
            # A damaged row's own seq may be part of the damage; its place is not.
            read = msgspec.structs.replace(read, seq=expected)
        found.append(read)
        expected = read.seq + 1
    return found


def missing(conversation_id: ConversationId, first: Seq, last: Seq) -> list[Damaged]:
    return [Damaged(conversation_id=conversation_id, seq=seq, why="it is missing") for seq in range(first, last + 1)]


def shown_as(conversation_id: ConversationId, stretch: Stretch, reads: list[Read]) -> list[Read]:
    """A fork shows the facts that it shares as its own."""
    if stretch.owner == conversation_id:
        return reads
    return [msgspec.structs.replace(each, conversation_id=conversation_id) for each in reads]


def unpacked(compressed: int, data: bytes) -> bytes | None:
    """None where it cannot be."""
    try:
        return zlib.decompress(data) if compressed else data
    except zlib.error:
        return None


def opened_blob(sha256: str, row: tuple[int, bytes] | None, where: str) -> bytes:
    """A payload as it was given, from how it is stored; `where` is the journal, for messages."""
    if row is None:
        raise _bad_blob(where, sha256, "is missing from")
    data = unpacked(*row)
    if data is None or hashlib.sha256(data).hexdigest() != sha256:
        raise _bad_blob(where, sha256, "is damaged in")
    return data


def payload_pruned(sha256: str) -> InputError:
    return InputError(f"The payload {sha256} was pruned.", remedy="It was asked for with turnwright storage prune.")


def _bad_blob(where: str, sha256: str, how: str) -> JournalDamaged:
    return JournalDamaged(
        f"The payload {sha256} {how} the journal {where}.",
        remedy="Run `turnwright journal verify` to see what else is lost.",
    )


def parted(reads: Sequence[Read]) -> tuple[list[Recorded], list[Damaged]]:
    recorded: list[Any] = []
    damaged: list[Any] = []
    for read in reads:
        (recorded if isinstance(read, Recorded) else damaged).append(read)
    return recorded, damaged
