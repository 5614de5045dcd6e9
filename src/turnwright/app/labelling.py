"""A title, tags, a place in the archive (S5): notes in the conversation itself, so they go wherever it goes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnwright.app.clock import SystemClock
from turnwright.app.reading import facts_of, named_conversation
from turnwright.journal.port import Journal
from turnwright.schema.errors import InputError
from turnwright.schema.facts import Note
from turnwright.views.fold import folded
from turnwright.views.sessions import LABELLED, TAG, Session, fold_session

TITLE_CHARS_MAX = 200
TAG_SHAPE = re.compile(r"[\w.+-]{1,40}")


async def label(
    journal: Journal,
    name: str,
    *,
    title: str | None = None,
    tags: Sequence[str] = (),
    untags: Sequence[str] = (),
    archived: bool | None = None,
) -> Session:
    """The conversation as it is labelled then. What it is already costs no fact."""
    conversation_id = await named_conversation(journal, name)
    session = folded(fold_session, Session(), await facts_of(journal, conversation_id))
    data: dict[str, str | int | float | bool | None] = {}
    if title is not None and _title(title) != session.title:
        data["title"] = _title(title)
    data |= {f"{TAG}{_tag(tag)}": True for tag in tags if tag not in session.tags}
    data |= {f"{TAG}{_tag(tag)}": False for tag in untags if tag in session.tags}
    if archived is not None and archived != session.archived:
        data["archived"] = archived
    if data:
        note = Note(code=LABELLED, text=_said(data), data=data)
        async with await journal.acquire(conversation_id) as lease:
            await journal.append(lease, [(SystemClock().wall_ms(), note)])
    return folded(fold_session, Session(), await journal.since(conversation_id))


def _title(title: str) -> str:
    line = " ".join(title.split())[:TITLE_CHARS_MAX]
    if not line:
        raise InputError("The title is empty.", remedy="Say what the conversation is about.")
    return line


def _tag(tag: str) -> str:
    if TAG_SHAPE.fullmatch(tag) is None:
        raise InputError(f"{tag!r} is no tag.", remedy="Use one word: letters, digits, dot, plus, dash, underscore.")
    return tag


def _said(data: dict[str, str | int | float | bool | None]) -> str:
    parts = []
    for key, value in data.items():
        if key.startswith(TAG):
            parts.append(f"{'tagged' if value else 'no longer tagged'} {key.removeprefix(TAG)}")
        elif key == "archived":
            parts.append("put into the archive" if value else "taken out of the archive")
        else:
            parts.append(f"titled {value}")
    return "; ".join(parts)
