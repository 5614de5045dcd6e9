"""Glob patterns on paths: `*`, `?`, `[…]` within a name, `**` across folders, `{a,b}` for either.

Matched name by name, so that no pattern takes more than a moment on any path.
"""

from __future__ import annotations

import fnmatch
from functools import lru_cache

from turnwright.schema.errors import ToolFailure

ALTERNATIVES_MAX = 100


class Glob:
    """A pattern without a slash is about the file's name, wherever it is."""

    def __init__(self, pattern: str) -> None:
        pattern = pattern.removeprefix("./")
        if not pattern or pattern.startswith("/") or ".." in pattern.split("/"):
            raise ToolFailure(f"The pattern {pattern!r} must be relative to the workspace.")
        self._patterns = [
            tuple(each.split("/")) if "/" in each else ("**", each) for each in _expanded(pattern.rstrip("/"))
        ]

    def matches(self, path: str) -> bool:
        names = tuple(path.split("/"))
        return any(_matches(pattern, names) for pattern in self._patterns)


def _expanded(pattern: str) -> list[str]:
    """Braces as alternatives."""
    done: list[str] = []
    todo = [pattern]
    while todo:
        each = todo.pop()
        start = each.find("{")
        end = _closing(each, start)
        if start < 0 or end < 0:
            done.append(each)
        else:
            todo += [each[:start] + part + each[end + 1 :] for part in reversed(_parts(each[start + 1 : end]))]
        if len(done) + len(todo) > ALTERNATIVES_MAX:
            raise ToolFailure(f"The pattern {pattern[:80]!r} stands for more than {ALTERNATIVES_MAX} patterns.")
    return done


def _closing(text: str, start: int) -> int:
    depth = 0
    for at in range(max(start, 0), len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0 and text[at] == "}":
            return at
    return -1


def _parts(text: str) -> list[str]:
    parts, depth = [""], 0
    for character in text:
        depth += (character == "{") - (character == "}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _matches(pattern: tuple[str, ...], names: tuple[str, ...]) -> bool:
    """Which starts of `names` the pattern so far can stand for, piece by piece: linear in both."""
    reached = {0}
    for piece in pattern:
        if piece == "**":
            reached = set(range(min(reached), len(names) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(names) and _one(piece, names[at])}
        if not reached:
            return False
    return len(names) in reached


@lru_cache(maxsize=4096)
def _one(piece: str, name: str) -> bool:
    return fnmatch.fnmatchcase(name, piece)
