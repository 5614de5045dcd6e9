"""How much a journal in memory holds of what, and deleting from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from turnwright.journal import leases
from turnwright.journal.records import ConversationSummary, Holder
from turnwright.journal.rows import HASH_BYTES
from turnwright.journal.stored import Naming, Payload, Pruned, Stored, StoredConversation, Tally, held_reason, namings
from turnwright.schema.facts import Recorded
from turnwright.schema.ids import ConversationId, Prefix

LINK_BYTES = 2 * HASH_BYTES
"""What ties a row to the one before, where there are rows."""


class Conversation(Protocol):
    prefix: Prefix | None
    facts: list[Recorded]

    @property
    def own(self) -> list[Recorded]: ...


def stored(
    conversations: Mapping[ConversationId, Conversation],
    blobs: Mapping[str, bytes],
    listed: Sequence[ConversationSummary],
) -> Stored:
    tally = Tally(_payloads(blobs))
    numbers = {name: number for number, name in enumerate(conversations)}
    for name, conversation in conversations.items():
        tally.add(_namings(numbers[name], conversation.own, blobs))
    facts = [one for conversation in conversations.values() for one in conversation.own]
    sums = tally.whole()
    return Stored(
        place="memory",
        total_bytes=_bytes(facts) + sums["payload_bytes"],
        facts=len(facts),
        fact_bytes=_bytes(facts),
        content_bytes=sums["payload_bytes"],
        conversations=tuple(
            StoredConversation(
                id=each.id,
                title=each.title or each.first_text,
                last_at=each.last_at,
                facts=len(conversations[each.id].own),
                fact_bytes=_bytes(conversations[each.id].own),
                shared_facts=sum(one.seq <= _shared(conversations, each.id) for one in conversations[each.id].own),
                held_by=each.held_by,
                **tally.of(numbers[each.id]),
            )
            for each in listed
        ),
        **sums,
    )


def pruned(
    conversations: Mapping[ConversationId, Conversation],
    blobs: dict[str, bytes],
    forgotten: set[str],
    holders: Mapping[ConversationId, Holder | None],
    asked: Sequence[ConversationId],
    *,
    captures: bool,
    dry_run: bool,
) -> Pruned:
    if unknown := next((name for name in asked if name not in conversations), None):
        raise leases.no_conversation(unknown)
    kept = {name: held_reason(holder) for name in asked if (holder := holders[name]) is not None}
    going = [name for name in dict.fromkeys(asked) if name not in kept]
    numbers = {name: number for number, name in enumerate(conversations)}
    # What a fork shares it names as well, so that it stays when its first owner goes.
    names = [each for name, one in conversations.items() for each in _namings(numbers[name], one.facts, blobs)]
    theirs = {numbers[name] for name in going}
    through = {numbers[name]: _shared(conversations, name, without=going) for name in going}
    gone = {each for each in names if each.conversation in theirs and (not captures or each.captured)}
    payloads = {each.sha256 for each in gone} - {each.sha256 for each in names if each not in gone}
    facts = [
        one for name in going if not captures for one in conversations[name].own if one.seq > through[numbers[name]]
    ]
    found = Pruned(
        conversations=() if captures else tuple(going),
        facts=len(facts),
        fact_bytes=_bytes(facts),
        payloads=len(payloads),
        payload_bytes=sum(len(blobs[name]) for name in payloads),
        kept=kept,
        dry_run=dry_run,
    )
    if not dry_run:
        for sha256 in payloads:
            del blobs[sha256]
        forgotten |= payloads if captures else set()
    return found


def _payloads(blobs: Mapping[str, bytes]) -> dict[str, Payload]:
    return {sha256: Payload(len(data), len(data)) for sha256, data in blobs.items()}


def _namings(number: int, facts: Iterable[Recorded], blobs: Mapping[str, bytes]) -> list[Naming]:
    return [each for one in facts for each in namings(number, one.seq, one.body, blobs)]


def _shared(
    conversations: Mapping[ConversationId, Conversation], name: ConversationId, without: Sequence[ConversationId] = ()
) -> int:
    forks = (one.prefix for other, one in conversations.items() if other not in without)
    return max((prefix.through for prefix in forks if prefix and prefix.conversation_id == name), default=0)


def _bytes(facts: Iterable[Recorded]) -> int:
    return sum(len(one.body) + LINK_BYTES for one in facts)
