"""What was acknowledged and is gone. It is written down when the journal is opened, before new commits hide it."""

from __future__ import annotations

import apsw

from turnwright.journal.marks import Mark, Marks
from turnwright.journal.transactions import transaction


def note_losses(connection: apsw.Connection, marks: Marks, now_ms: int) -> None:
    # The mark is read first: it may lag behind the database, never lead it.
    mark = marks.read()
    if lost(connection, mark) is None:
        return
    with transaction(connection):
        what = lost(connection, mark)
        if what is not None:
            connection.execute("INSERT INTO losses (found_at, what) VALUES (?, ?)", (now_ms, what))
    marks.forget()


def lost(connection: apsw.Connection, mark: Mark) -> str | None:
    """What the mark knows and the database does not."""
    facts = connection.execute("SELECT max(position) FROM facts").get or 0
    changes = connection.execute("SELECT changes FROM tally").get or 0
    if facts < mark.facts:
        last = f", the last of them {mark.conversation_id} seq {mark.seq}" if mark.conversation_id else ""
        return f"{mark.facts - facts} acknowledged facts are gone{last}"
    if changes < mark.changes:
        return f"{mark.changes - changes} acknowledged changes of leases are gone"
    return None
