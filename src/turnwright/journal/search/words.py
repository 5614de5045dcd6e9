"""Words, and what it means that a text has them. Both journals index these words, so both find the same."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from turnwright.schema.errors import InputError

WORD_CHARS_MAX = 100
EXCERPT_BEFORE_CHARS = 50
EXCERPT_CHARS = 160
TERMS_MAX = 32

_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W_{_IDEOGRAPHS}]+")
"""Scripts that are written without spaces are taken letter by letter; what is asked for is then a phrase."""
_TERM = re.compile(r'"([^"]*)"?(\*?)|([^\s"]+)')


class Phrase(NamedTuple):
    """Words that stand one after another; of the last one perhaps only the beginning."""

    words: tuple[str, ...]
    prefix: bool = False


class Wanted(NamedTuple):
    """All of them, in whatever order."""

    phrases: tuple[Phrase, ...]


class Place(NamedTuple):
    """A word, and where it stands in its text."""

    word: str
    start: int
    end: int


def wanted(query: str) -> Wanted:
    """What a user types: words, `"words in this order"`, `begin*`."""
    phrases = []
    for quoted, star, bare in _TERM.findall(query):
        if found := tuple(words(quoted or bare)):
            phrases.append(Phrase(found, bool(star) or bare.endswith("*")))
    if not phrases:
        raise InputError(
            f"{query!r} has no word to search for.", remedy='Example: turnwright search "disk full" ENOSPC'
        )
    if len(phrases) > TERMS_MAX:
        raise InputError(f"{len(phrases)} words are too many to search for.", remedy=f"Give at most {TERMS_MAX}.")
    return Wanted(tuple(dict.fromkeys(phrases)))


def words(text: str) -> Iterator[str]:
    """In order: without case, accents and signs. What is longer than any word counts by its beginning."""
    return (place.word for place in places(unicodedata.normalize("NFC", text)))


def places(text: str) -> Iterator[Place]:
    for found in _WORD.finditer(text):
        if word := _folded(found[0])[:WORD_CHARS_MAX]:
            yield Place(word, found.start(), found.end())


def _folded(word: str) -> str:
    if word.isascii():
        return word.lower()
    apart = unicodedata.normalize("NFKD", word.casefold())
    return "".join(letter for letter in apart if letter.isalnum())


def matches(text: str, asked: Wanted) -> bool:
    found = list(words(text))
    return all(_first(found, phrase) is not None for phrase in asked.phrases)


def excerpt(text: str, asked: Wanted) -> str:
    """What stands around the first phrase that is found, on one line."""
    text = unicodedata.normalize("NFC", text)
    found = list(places(text))
    spoken = [place.word for place in found]
    firsts = [first for phrase in asked.phrases if (first := _first(spoken, phrase)) is not None]
    middle = found[min(firsts)].start if firsts else 0
    start = max(0, middle - EXCERPT_BEFORE_CHARS)
    end = start + EXCERPT_CHARS
    line = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{line}{'…' if end < len(text) else ''}"


def spans(text: str, asked: Wanted) -> list[tuple[int, int]]:
    """Where the phrases stand, for whoever wants to mark them."""
    found = list(places(text))
    spoken = [place.word for place in found]
    marked = []
    for at in range(len(found)):
        for phrase in asked.phrases:
            if _stands(spoken, at, phrase):
                marked.append((found[at].start, found[at + len(phrase.words) - 1].end))
                break
    return marked


def _first(spoken: list[str], phrase: Phrase) -> int | None:
    return next((at for at in range(len(spoken)) if _stands(spoken, at, phrase)), None)


def _stands(spoken: list[str], at: int, phrase: Phrase) -> bool:
    *whole, last = phrase.words
    end = at + len(whole)
    if spoken[at:end] != whole or end >= len(spoken):
        return False
    return spoken[end].startswith(last) if phrase.prefix else spoken[end] == last
