"""One line per conversation, for `turnwright sessions`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from turnwright.schema.facts import (
    AttemptEnded,
    ContextCompacted,
    ConversationOpened,
    InboxAdmitted,
    InboxWithdrawn,
    Note,
    Recorded,
    SteeringDelivered,
    StepStarted,
    TurnEnded,
    TurnStarted,
)
from turnwright.schema.ids import ConversationId
from turnwright.schema.verdicts import StopReason
from turnwright.views.metrics import Meter, metered
from turnwright.views.text import Line, Span, Style, clip, cost, count, line, one_line, pad, right, when, width

SessionState: TypeAlias = Literal["new", "open", "ended"]

LABELLED = "labelled"
"""The code of a note by which a conversation is given a title, tags or a place in the archive."""
TAG = "tag:"
"""How keys of its data begin that are tags: true puts one on, false takes it off."""
_TITLE_CHARS = 200


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation at a glance. `open`: its last turn has no end, so it runs or was interrupted; who holds the
    lease knows which. Usage and cost are of all model calls, whatever their purpose."""

    conversation_id: ConversationId = ""
    title: str = ""
    workspace: str = ""
    model: str = ""
    parent: ConversationId | None = None
    depth: int = 0
    """Of a subagent of `parent`; 0 where it is nobody's."""
    tags: tuple[str, ...] = ()
    archived: bool = False
    opened_at: int = 0
    last_at: int = 0
    last_seq: int = 0
    turns: int = 0
    steps: int = 0
    state: SessionState = "new"
    reason: StopReason | None = None
    waiting: int = 0
    """Messages of the user that no turn has taken yet."""
    spent: Meter = Meter()


def fold_session(state: Session, recorded: Recorded) -> Session:
    state = replace(
        state,
        conversation_id=recorded.conversation_id,
        opened_at=state.opened_at or recorded.at,
        last_at=recorded.at,
        last_seq=recorded.seq,
    )
    fact = recorded.fact
    match fact:
        case ConversationOpened():
            return replace(
                state,
                title=fact.title or state.title,
                workspace=fact.workspace,
                model=fact.model,
                parent=fact.parent,
                depth=fact.errand.depth if fact.errand else 0,
            )
        case Note(code=code) if code == LABELLED:
            return _labelled(state, fact)
        case TurnStarted():
            return replace(
                state,
                title=state.title or fact.text[:_TITLE_CHARS],
                turns=state.turns + 1,
                state="open",
                reason=None,
                waiting=max(0, state.waiting - len(fact.inbox_ids)),
            )
        case StepStarted():
            return replace(state, steps=state.steps + 1)
        case AttemptEnded():
            return replace(state, spent=metered(state.spent, fact))
        case InboxAdmitted():
            return replace(state, waiting=state.waiting + 1)
        case InboxWithdrawn():
            return replace(state, waiting=max(0, state.waiting - 1))
        case ContextCompacted(waiting=waiting):
            # Whoever opened the conversation did not read of those that came before.
            return replace(state, waiting=max(state.waiting, len(waiting)))
        case SteeringDelivered():
            return replace(state, waiting=max(0, state.waiting - len(fact.inbox_ids)))
        case TurnEnded():
            return replace(state, state="ended", reason=fact.reason)
        case _:
            return state


def _labelled(state: Session, note: Note) -> Session:
    tags = dict.fromkeys(state.tags)
    title, archived = state.title, state.archived
    for key, value in note.data.items():
        if key == "title":
            title = str(value)
        elif key == "archived":
            archived = value is True
        elif key.startswith(TAG) and value is True:
            tags[key.removeprefix(TAG)] = None
        elif key.startswith(TAG):
            tags.pop(key.removeprefix(TAG), None)
    return replace(state, title=title, archived=archived, tags=tuple(tags))


def session_lines(
    sessions: Iterable[Session], held: frozenset[ConversationId] = frozenset(), columns: int = 100
) -> Iterator[Line]:
    """As they come. `held` are the conversations that some live process writes."""
    empty = True
    for session in sessions:
        if empty:
            yield line(Span(_head(columns), "dim"))
        empty = False
        yield _line(session, session.conversation_id in held, columns)
    if empty:
        yield line(Span("no conversations yet", "dim"))


def _head(columns: int) -> str:
    return clip(
        f"{pad('id', 22)}  {pad('last', 20)} {pad('state', 14)} {right('steps', 5)} {right('cost', 8)}  title", columns
    )


def _line(session: Session, held: bool, columns: int) -> Line:
    said, style = _said(session, held)
    front = f"{pad(one_line(session.conversation_id), 22)}  {when(session.last_at)} "
    spent = cost(session.spent.cost_usd) if session.spent.calls else ""
    numbers = f" {right(count(session.steps), 5)} {right(spent, 8)}  "
    title = "  " * max(0, session.depth - 1) + "↳ " * bool(session.depth) + (one_line(session.title) or "(untitled)")
    title += f"  [{session.waiting} waiting]" if session.waiting else ""
    title += "".join(f"  #{one_line(tag)}" for tag in session.tags)
    title += "  (archived)" if session.archived else ""
    return line(
        front,
        Span(pad(said, 14), style),
        numbers,
        clip(title, max(10, columns - width(front) - 14 - width(numbers))),
    )


def _said(session: Session, held: bool) -> tuple[str, Style]:
    if session.state == "open":
        return ("running", "good") if held else ("interrupted", "warn")
    if session.state == "new":
        return "new", "dim"
    return str(session.reason), "plain" if session.reason == "stop" else "bad"
