"""A file comes in: its format is found, it is read whole, and recorded in one commit or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias, get_args

import msgspec

from turnwright.app.clock import SystemClock
from turnwright.app.ids import SystemIds, derived_id
from turnwright.app.importing import claude_code, codex
from turnwright.app.importing.events import Session, facts_of
from turnwright.app.secrets import masker_of
from turnwright.journal.port import Journal
from turnwright.schema.errors import InputError
from turnwright.schema.facts import BlobRef, Recorded
from turnwright.schema.ids import ConversationId, Seq
from turnwright.session.broadcast import Broadcast
from turnwright.session.ports import NoCaptures
from turnwright.session.recorder import Recorder
from turnwright.views.document import is_document, read_document

FileFormat: TypeAlias = Literal["turnwright", "claude-code", "codex"]
FILE_FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)
LOOKED_AT_LINES = 20


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    conversation_id: ConversationId
    format: FileFormat
    facts: int
    already_there: bool = False
    """The same file came in before; nothing was written."""
    lines: int
    left_out: dict[str, int] = {}
    """Lines of another agent's session that are no part of the conversation, by what they are. The file is kept."""


class _Foreign(msgspec.Struct, frozen=True):
    is_one: Callable[[bytes], bool]
    read: Callable[[Iterable[bytes]], Session]


_FOREIGN: dict[str, _Foreign] = {
    "claude-code": _Foreign(claude_code.is_one, claude_code.read),
    "codex": _Foreign(codex.is_one, codex.read),
}


def format_of(lines: Sequence[bytes]) -> FileFormat:
    """By the first lines that say it."""
    for line in lines[:LOOKED_AT_LINES]:
        if is_document(line):
            return "turnwright"
        for name in FILE_FORMATS[1:]:
            if _FOREIGN[name].is_one(line):
                return name
    raise InputError(
        "This is no conversation of a format that is known.",
        remedy=f"Known are: {', '.join(FILE_FORMATS)}. Name one with --format.",
    )


async def imported(
    journal: Journal, content: bytes, *, named: FileFormat | None = None, as_new: bool = False
) -> Imported:
    lines = [line for line in content.split(b"\n") if line.strip()]
    format_ = named or format_of(lines)
    if format_ == "turnwright":
        return await _restored(journal, lines, as_new=as_new)
    return await _retold(journal, format_, content, lines, as_new=as_new)


async def _restored(journal: Journal, lines: Sequence[bytes], *, as_new: bool) -> Imported:
    document = read_document(lines)
    facts, conversation_id = document.facts, document.head.conversation_id
    done = Imported(conversation_id=conversation_id, format="turnwright", facts=len(facts), lines=len(lines))
    known = [] if as_new else await _known(journal, conversation_id)
    if known:
        if not _begins_with(known, facts):
            raise InputError(
                f"The journal has another conversation {conversation_id}, which is not what the file holds.",
                remedy="Bring the file in under a new id with --as-new.",
            )
        return msgspec.structs.replace(done, already_there=True)
    if as_new:
        done = msgspec.structs.replace(done, conversation_id=_new_id())
    async with await journal.acquire(done.conversation_id, create=True) as lease:
        await journal.restore(lease, facts, document.payloads)
    return done


async def _known(journal: Journal, conversation_id: ConversationId) -> list[Recorded]:
    try:
        return await journal.since(conversation_id)
    except InputError:
        return []


def _begins_with(known: Sequence[Recorded], facts: Sequence[Recorded]) -> bool:
    def said(recorded: Iterable[Recorded]) -> list[tuple[Seq, int, bytes]]:
        return [(one.seq, one.at, one.body) for one in recorded]

    return said(known[: len(facts)]) == said(facts)


def _new_id() -> ConversationId:
    return SystemIds(SystemClock().wall_ms).new("conversation")


async def _retold(
    journal: Journal, format_: FileFormat, content: bytes, lines: Sequence[bytes], *, as_new: bool
) -> Imported:
    session = _FOREIGN[format_].read(lines)
    if not session.events:
        raise InputError("There is nothing said in this session.", remedy="Check the file, or name its --format.")
    material = b"\0".join((session.agent.encode(), session.session_id.encode(), content))
    conversation_id = _new_id() if as_new else derived_id("conversation", session.opened_at, material)
    masker = masker_of(None)
    source = masker(content.decode(errors="replace")).encode()
    ref = BlobRef(sha256=hashlib.sha256(source).hexdigest(), size_bytes=len(source))
    facts = facts_of(
        session, ref, lambda turn: derived_id("turn", session.opened_at, b"%b %d" % (conversation_id.encode(), turn))
    )
    done = Imported(
        conversation_id=conversation_id,
        format=format_,
        facts=len(facts),
        lines=session.lines,
        left_out=session.left_out,
    )
    if await _known(journal, conversation_id):
        return msgspec.structs.replace(done, already_there=True)
    async with await journal.acquire(conversation_id, create=True) as lease:
        recorder = Recorder(journal, lease, SystemClock(), masker, Broadcast(), NoCaptures())
        await recorder.past(facts, {ref.sha256: source})
    return done
