"""One line of a list of conversations, from the few facts that make it."""

from __future__ import annotations

from turnwright.journal.records import ConversationSummary, Holder
from turnwright.schema.facts import ConversationOpened, Recorded, TurnEnded, TurnStarted
from turnwright.schema.ids import ConversationId, Seq

FIRST_TEXT_CHARS = 200


def summary(
    conversation_id: ConversationId,
    *,
    opened: Recorded | None,
    first_turn: Recorded | None,
    last_turn: Recorded | None,
    last_end: Recorded | None,
    last_seq: Seq,
    last_at: int,
    held_by: Holder | None,
) -> ConversationSummary:
    """Whatever is missing or damaged leaves its field empty."""
    header = opened.fact if opened is not None and isinstance(opened.fact, ConversationOpened) else None
    asked = first_turn.fact if first_turn is not None and isinstance(first_turn.fact, TurnStarted) else None
    ended = last_end.fact if last_end is not None and isinstance(last_end.fact, TurnEnded) else None
    running = last_turn is not None and last_end is not None and last_turn.seq > last_end.seq
    return ConversationSummary(
        id=conversation_id,
        opened_at=opened.at if opened is not None else last_at,
        last_at=last_at,
        facts=last_seq,
        title=header.title if header else "",
        first_text=asked.text[:FIRST_TEXT_CHARS] if asked else "",
        workspace=header.workspace if header else "",
        model=header.model if header else "",
        last_reason=ended.reason if ended and not running else None,
        held_by=held_by,
        sent_by=header.parent if header and header.errand else None,
    )
