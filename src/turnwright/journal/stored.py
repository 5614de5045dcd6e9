"""What the journal keeps, in bytes, and what pruning it takes away."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from turnwright.journal.records import Holder
from turnwright.schema.ids import ConversationId, Seq

PAYLOAD_NAME = re.compile(rb"[0-9a-f]{64}")
"""Looked for in the bytes of a fact: one of a newer version may name a payload in a field that we do not know."""
CAPTURE_NAME = re.compile(rb'"capture":\{"sha256":"([0-9a-f]{64})"')
"""Quotes within a text are escaped, so this is never somebody's words."""


class StoredConversation(msgspec.Struct, frozen=True, kw_only=True):
    """Facts are those that it owns. What pruning it would free is less where others share its payloads."""

    id: ConversationId
    title: str = ""
    last_at: int = 0
    facts: int = 0
    fact_bytes: int = 0
    payloads: int = 0
    payload_bytes: int = 0
    captures: int = 0
    capture_bytes: int = 0
    shared_facts: int = 0
    """Those of its own that forks share, and that stay as long as they do."""
    held_by: Holder | None = None


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """Payloads count as they are stored, compressed; captures are payloads too."""

    place: str
    total_bytes: int
    """All of it, indexes included."""
    free_bytes: int = 0
    """Within the database, for what comes next."""
    log_bytes: int = 0
    search_bytes: int = 0
    facts: int = 0
    fact_bytes: int = 0
    payloads: int = 0
    payload_bytes: int = 0
    content_bytes: int = 0
    """Payloads before they were compressed."""
    captures: int = 0
    capture_bytes: int = 0
    unreadable: int = 0
    """Facts that could not be looked at; `turnwright journal verify` says more."""
    conversations: tuple[StoredConversation, ...] = ()


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted, or would be: conversations whole, of payloads those that nothing names any more."""

    conversations: tuple[ConversationId, ...] = ()
    facts: int = 0
    fact_bytes: int = 0
    payloads: int = 0
    payload_bytes: int = 0
    kept: Mapping[ConversationId, str] = {}
    """What was asked for and stays, and why."""
    dry_run: bool = False


class Payload(NamedTuple):
    size_bytes: int
    stored_bytes: int


class Naming(NamedTuple):
    """A fact that names a payload."""

    conversation: int
    seq: Seq
    sha256: str
    captured: bool


def namings(conversation: int, seq: Seq, body: bytes, known: Collection[str]) -> list[Naming]:
    names = {found.decode() for found in PAYLOAD_NAME.findall(body)}
    if not names:
        return []
    captured = {found.decode() for found in CAPTURE_NAME.findall(body)}
    return [Naming(conversation, seq, name, name in captured) for name in sorted(names) if name in known]


def held_reason(holder: Holder) -> str:
    return f"it is being written by process {holder.pid} on {holder.host}"


class Tally:
    """Adds up who names which payload. Used while rows stream by."""

    def __init__(self, payloads: Mapping[str, Payload]) -> None:
        self._payloads = payloads
        self._named: dict[int, dict[str, bool]] = {}

    def add(self, found: Iterable[Naming]) -> None:
        for naming in found:
            named = self._named.setdefault(naming.conversation, {})
            named[naming.sha256] = naming.captured or named.get(naming.sha256, False)

    def of(self, conversation: int) -> dict[str, int]:
        """As fields of a StoredConversation."""
        named = self._named.get(conversation, {})
        return self._sums(named, lambda name: named[name])

    def whole(self) -> dict[str, int]:
        captured = {name for named in self._named.values() for name, is_capture in named.items() if is_capture}
        return self._sums(self._payloads, captured.__contains__)

    def _sums(self, names: Collection[str], captured: Callable[[str], bool]) -> dict[str, int]:
        captures = [self._payloads[name].stored_bytes for name in names if captured(name)]
        return {
            "payloads": len(names),
            "payload_bytes": sum(self._payloads[name].stored_bytes for name in names),
            "captures": len(captures),
            "capture_bytes": sum(captures),
        }
