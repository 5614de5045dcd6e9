"""What is known of models: prices, windows, abilities. Pure: a shelf per provider, and how a name is found on it.

Nothing here is ever guessed. A name that is not on its provider's shelf is unknown, and so is a price that the data
does not give.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from turnwright.schema.routes import Price, Route
from turnwright.schema.settings import ModelEntry, ModelPrice, ReasoningField

DAY_S = 86_400
SUGGESTIONS = 3


class Clause(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """Whether a name in lower case means a model: sources list families and dated versions like this."""

    how: Literal["equals", "begins", "ends", "contains", "matches", "any", "all"]
    text: str = ""
    of: tuple[Clause, ...] = ()

    def fits(self, name: str) -> bool:
        match self.how:
            case "equals":
                return name == self.text
            case "begins":
                return name.startswith(self.text)
            case "ends":
                return name.endswith(self.text)
            case "contains":
                return self.text in name
            case "matches":
                return re.search(self.text, name) is not None
            case "any":
                return any(clause.fits(name) for clause in self.of)
            case "all":
                return all(clause.fits(name) for clause in self.of)


class Terms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A price and when it holds. None: it holds, and it cannot be told from counts of tokens."""

    price: Price | None
    from_s: int | None = None
    """Since the epoch."""
    daily_s: tuple[int, int] | None = None
    """Seconds of the day, UTC; the second may lie on the next day."""

    def in_force(self, now_s: float) -> bool:
        if self.from_s is not None and now_s < self.from_s:
            return False
        if self.daily_s is None:
            return True
        begin, end = self.daily_s
        at = now_s % DAY_S
        return begin <= at < end if begin <= end else at >= begin or at < end


class Known(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model. None is unknown."""

    id: str
    window: int | None = None
    max_output: int | None = None
    tools: bool | None = None
    images: bool | None = None
    reasoning: bool | None = None
    reasoning_field: ReasoningField | None = None
    """Under which key its reasoning must go back to it."""
    terms: tuple[Terms, ...] = ()
    """Of those in force the last one holds; where none is, the first."""
    sources: tuple[str, ...] = ()
    updated: str = ""
    """The day its price, or else the entry, last changed (ISO)."""
    deprecated: bool = False

    def price(self, now_s: float) -> Price | None:
        for terms in reversed(self.terms):
            if terms.in_force(now_s):
                return terms.price
        return self.terms[0].price if self.terms else None


class Rule(msgspec.Struct, frozen=True, array_like=True):
    clause: Clause
    id: str


class Shelf(msgspec.Struct, frozen=True, kw_only=True):
    """The models of one provider, each read when it is wanted: a start needs one of a thousand. Rules find names that
    are not spelled out, the first that fits."""

    models: dict[str, msgspec.Raw]
    rules: tuple[Rule, ...] = ()

    def known(self, id_: str) -> Known:
        return msgspec.json.decode(self.models[id_], type=Known)


def shelved(models: Iterable[Known], rules: Iterable[Rule] = ()) -> Shelf:
    return Shelf(models={known.id: msgspec.Raw(msgspec.json.encode(known)) for known in models}, rules=tuple(rules))


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where the data comes from, and how new it is."""

    name: str
    version: str
    until: str
    """The newest day that it speaks of (ISO)."""

    def __str__(self) -> str:
        return f"{self.name} {self.version} of {self.until}"


def found(shelf: Shelf, name: str) -> Known | None:
    """The model that a name means. A variant (`:nitro`) of a known model is known, but not at the same price."""
    if name in shelf.models:
        return shelf.known(name)
    lower = name.lower()
    for rule in shelf.rules:
        if rule.clause.fits(lower):
            return shelf.known(rule.id)
    for id_ in shelf.models:
        if id_.lower() == lower:
            return shelf.known(id_)
    base, colon, _ = name.rpartition(":")
    if colon and "/" in base and (known_base := found(shelf, base)):
        return msgspec.structs.replace(known_base, terms=())
    return None


def nearest(shelf: Shelf, name: str) -> Sequence[str]:
    from difflib import get_close_matches  # costs milliseconds, and only a mistake needs it

    lower = {known.lower(): known for known in shelf.models}
    return [lower[close] for close in get_close_matches(name.lower(), lower, SUGGESTIONS, 0.5)]


SETTINGS = "settings"
"""The source of what the user says himself."""


def overridden(known: Known, entry: ModelEntry) -> Known:
    """The user's word over the data, field by field; a price of his own is his whole."""
    given = {
        name: value
        for name in ("window", "max_output", "tools", "images", "reasoning", "reasoning_field")
        if (value := getattr(entry, name)) is not None
    }
    if entry.price != ModelPrice():
        given["terms"] = tuple(_repriced(known.terms, entry.price))
    if not given:
        return known
    return msgspec.structs.replace(known, **given, sources=(*known.sources, SETTINGS))


def _repriced(terms: Sequence[Terms], given: ModelPrice) -> Iterator[Terms]:
    if given.input is not None and given.output is not None:
        yield Terms(
            price=Price(
                input=given.input, output=given.output, cache_read=given.cache_read, cache_write=given.cache_write
            )
        )
        return
    caches = {name: value for name in ("cache_read", "cache_write") if (value := getattr(given, name)) is not None}
    for each in terms:
        price = each.price and msgspec.structs.replace(each.price, **caches)
        yield msgspec.structs.replace(each, price=price)


def completed(route: Route, known: Known, now_s: float) -> Route:
    """A route with what is known of its model now."""
    return msgspec.structs.replace(
        route,
        price=known.price(now_s),
        window=known.window,
        max_output=known.max_output,
        tools=known.tools,
        images=known.images,
        reasoning=known.reasoning,
    )
