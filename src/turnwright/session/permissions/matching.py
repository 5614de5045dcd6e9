"""Whether a rule means a segment. Only `*` is special, and a match takes linear time."""

from __future__ import annotations

from typing import Literal

from turnwright.session.permissions.syntax import UNKNOWN

TEXT_MAX = 20_000


def matches(pattern: str, text: str) -> bool:
    if pattern == "*":
        return True
    if pattern.endswith(" *") and "*" not in pattern[:-2] and text == pattern[:-2]:
        return True
    first, *middle = pattern.split("*")
    if not middle:
        return text == pattern
    *middle, last = middle
    if not text.startswith(first) or len(text) < len(first) + len(last) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def may_match(pattern: str, text: str) -> bool:
    """Whether what only the shell knows could make it match. Both sides then are patterns: where each has a star, only
    their beginnings and their ends can keep them apart."""
    if UNKNOWN not in text:
        return matches(pattern, text)
    pieces = text.split(UNKNOWN)
    if "*" not in pattern:
        return matches(text.replace("*", UNKNOWN).replace(UNKNOWN, "*"), pattern)
    begins, ends = pattern.split("*")[0], pattern.split("*")[-1]
    return _alike(begins, pieces[0], str.startswith) and _alike(ends, pieces[-1], str.endswith)


def _alike(one: str, other: str, agrees: object) -> bool:
    assert callable(agrees)
    return bool(agrees(one, other)) or bool(agrees(other, one))


Match = Literal["yes", "maybe", "no"]


def means(pattern: str, allows: bool, text: str, also: tuple[str, ...], readable: bool) -> Match:
    """`allows`: the rule permits, so it must surely mean this very text. Any other holds for every way to say it."""
    if len(text) > TEXT_MAX:
        readable = False
    if allows:
        return "yes" if pattern == "*" or (readable and matches(pattern, text)) else "no"
    if any(matches(pattern, each) for each in (text, *also)):
        return "yes"
    if not readable or any(may_match(pattern, each) for each in (text, *also)):
        return "maybe"
    return "no"
