"""A conversation, or a point in one, as users write it: `ID`, the beginning of one, `last`, each with `:SEQ`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from turnwright.app.reading import facts_of, named_conversation, no_conversation
from turnwright.journal.port import Journal
from turnwright.schema.errors import InputError
from turnwright.schema.facts import Recorded
from turnwright.schema.ids import Seq


class Point(msgspec.Struct, frozen=True):
    name: str
    """As it was given."""
    seq: Seq | None = None
    """The last fact that counts; None is all of them."""


def point_named(text: str) -> Point:
    name, colon, seq = text.partition(":")
    if colon and not (seq.isascii() and seq.isdecimal() and 0 < int(seq) < 2**63):
        raise InputError(f"{text!r} is not a point in a conversation.", remedy="Write ID:SEQ, with SEQ from 1.")
    return Point(name, int(seq) if colon else None)


FIRST_PAGE = 200
PAGE = 2_000
"""The first screen does not wait for what is not on it."""


async def pages_to(journal: Journal, point: Point) -> AsyncIterator[list[Recorded]]:
    """Everything up to it, oldest first, page by page: whoever shows it as it comes holds no more than a page."""
    name = await named_conversation(journal, point.name)
    end = await journal.tail(name, 1)
    if not end:
        raise no_conversation(name)
    last = end[0].seq
    through = last if point.seq is None else point.seq
    if through > last:
        raise _no_such_fact(point, last)
    seq, size = 0, FIRST_PAGE
    while seq < through:
        size = min(size, through - seq)
        yield await journal.since(name, seq, size)
        seq, size = seq + size, PAGE


def _no_such_fact(point: Point, last: Seq) -> InputError:
    return InputError(f"{point.name} has no fact {point.seq}.", remedy=f"Its last one is {last}.")


async def facts_to(journal: Journal, point: Point) -> list[Recorded]:
    """Everything up to it."""
    facts = await facts_of(journal, await named_conversation(journal, point.name))
    if point.seq is None:
        return facts
    if facts[-1].seq < point.seq:
        raise _no_such_fact(point, facts[-1].seq)
    return [recorded for recorded in facts if recorded.seq <= point.seq]
