"""The rows of a conversation, each held against the one before and against itself."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from turnwright.journal.records import Damaged, Finding
from turnwright.journal.rows import HASH_BYTES, Row, landmark_of, read_row
from turnwright.schema.facts import Fact, refs_of
from turnwright.schema.ids import ConversationId, Seq


def chain_findings(
    conversation_id: ConversationId, rows: Iterable[Row], expected: Seq, before: bytes, blobs: Container[str]
) -> Iterator[list[Finding]]:
    """What is wrong with each row, in order. `before` is the hash that the first one must follow."""
    for row in rows:
        found = _of_record(conversation_id, row, blobs)
        if row.seq != expected:
            what = f"{conversation_id} lacks seq {expected} to {row.seq - 1}"
            found.insert(0, Finding(place="record", message=what, conversation_id=conversation_id, seq=expected))
        elif row.link[:HASH_BYTES] != before:
            what = f"{conversation_id} seq {row.seq} does not follow the one before"
            found.insert(0, Finding(place="record", message=what, conversation_id=conversation_id, seq=row.seq))
        yield found
        expected, before = row.seq + 1, row.link[HASH_BYTES:]


def _of_record(conversation_id: ConversationId, row: Row, blobs: Container[str]) -> list[Finding]:
    read = read_row(conversation_id, row)
    if isinstance(read, Damaged):
        what = f"{conversation_id} seq {row.seq} is damaged: {read.why}"
        return [Finding(place="record", message=what, conversation_id=conversation_id, seq=row.seq)]
    found = []
    if isinstance(read.fact, Fact) and landmark_of(read.fact) != row.landmark:
        what = f"{conversation_id} seq {row.seq} is filed as another kind"
        found.append(Finding(place="record", message=what, conversation_id=conversation_id, seq=row.seq))
    for ref in refs_of(read.fact):
        if ref.sha256 not in blobs:
            what = f"payload {ref.sha256} of {conversation_id} seq {row.seq} is gone"
            found.append(Finding(place="blob", message=what, conversation_id=conversation_id, seq=row.seq))
    return found
