"""The rows of a conversation, each held against the one before and against itself."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any

from turnwright.journal.records import Damaged, Finding
from turnwright.journal.rows import HASH_BYTES, Row, landmark_of, read_row
from turnwright.schema.facts import Fact, refs_of
from turnwright.schema.ids import ConversationId, Seq


def chain_findings(
    conversation_id: ConversationId, rows: Iterable[Row], expected: Seq, before: bytes, blobs: Container[str]
) -> Iterator[list[Finding]]:
    """What is wrong with each row, in order. `before` is the hash that the first one must follow."""
    tied: bytes | None = before
    for row in rows:
        found = _of_record(conversation_id, row, blobs)
        # A flip in a record's head may turn a column into a NULL. What comes next cannot be held against that.
        columns: tuple[Any, Any] = row.seq, row.link
        seq = columns[0] if isinstance(columns[0], int) else expected
        link = columns[1] if isinstance(columns[1], bytes) else None
        if seq != expected:
            what = f"{conversation_id} lacks seq {expected} to {seq - 1}"
            found.insert(0, Finding(place="record", message=what, conversation_id=conversation_id, seq=expected))
        elif link is not None and tied is not None and link[:HASH_BYTES] != tied:
            what = f"{conversation_id} seq {seq} does not follow the one before"
            found.insert(0, Finding(place="record", message=what, conversation_id=conversation_id, seq=seq))
        yield found
        expected, tied = seq + 1, link[HASH_BYTES:] if link is not None else None


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
