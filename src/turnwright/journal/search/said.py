"""What of a fact is searched: whatever was said, asked, done or seen, each once."""

from __future__ import annotations

from collections.abc import Callable

from turnwright.journal.records import SaidBy
from turnwright.schema.facts import (
    ContextCompacted,
    ConversationOpened,
    Fact,
    GuardTripped,
    ModelReplied,
    Note,
    SteeringDelivered,
    ToolEnded,
    ToolStarted,
    TurnStarted,
    Unknown,
)

SAID_BYTES_MAX = 1024 * 1024
"""Of one fact: what a command printed may be as long as it likes."""


def said(fact: Fact | Unknown, blob: Callable[[str], bytes | None]) -> tuple[SaidBy, str] | None:
    """None where there is nothing to be found. `blob` gives a payload that was set apart, or None where it is gone."""
    match fact:
        case TurnStarted(text=text) | SteeringDelivered(text=text):
            found: tuple[SaidBy, str] = ("user", text)
        case ModelReplied(message=message):
            found = ("model", message.text)
        case ToolStarted():
            found = ("call", f"{fact.name} {fact.arguments}")
        case ToolEnded(output_blob=ref) if ref is not None:
            found = ("result", (blob(ref.sha256) or b"")[:SAID_BYTES_MAX].decode(errors="replace"))
        case ToolEnded():
            found = ("result", fact.output)
        case ConversationOpened(title=title):
            found = ("runtime", title)
        case ContextCompacted(digest=digest):
            found = ("runtime", digest)
        case GuardTripped():
            found = ("runtime", fact.why)
        case Note():
            found = ("runtime", fact.text)
        case _:
            return None
    return (found[0], found[1][:SAID_BYTES_MAX]) if found[1].strip() else None
