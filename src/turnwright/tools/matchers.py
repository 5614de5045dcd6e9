"""Find the place a model means: exactly if it can be, else ever more tolerantly, and never by a guess.

Each matcher yields every place it would accept. The first matcher with a place decides: one place is the answer, more
than one is a refusal that names them. What is put in takes the indentation of the file where that was forgiven.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from turnwright.schema.errors import ToolFailure
from turnwright.tools.text import Lines, Replacement, with_newlines

SIMILARITY_MIN = 0.85
CANDIDATES_MAX = 200
LISTED_MAX = 10

_UNICODE = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys("\u2018\u2019\u201a\u201b", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f", '"')
    | dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " ")
)
_ESCAPE = re.compile(r"\\([ntr'\"`\\$])")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_SPACES = re.compile(r"[ \t]+")


class Place(msgspec.Struct, frozen=True):
    """Where something was found in the newline view, and what is to stand there."""

    start: int
    end: int
    new: str


class Edited(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    matcher: str
    lines: tuple[int, ...]
    """The line, as it was before, at which each replacement begins."""


Matcher: TypeAlias = Callable[["Haystack", str, str], list[Place]]


class Haystack:
    """A text by lines, with what several matchers need of it computed once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        self.starts: list[int] = []
        at = 0
        for line in self.lines:
            self.starts.append(at)
            at += len(line) + 1
        self._normal: dict[Callable[[str], str], tuple[str, list[int]]] = {}

    def blocks(self, wanted: Sequence[str], normal: Callable[[str], str]) -> Iterator[int]:
        """First line of each run of lines that equals `wanted` once both are normalised.

        The search is one for a string in a string, so that a file of equal lines costs linear time.
        """
        if normal not in self._normal:
            lines = [normal(line) for line in self.lines]
            offsets, at = [], 0
            for line in lines:
                offsets.append(at)
                at += len(line) + 1
            self._normal[normal] = "\n" + "\n".join(lines) + "\n", offsets
        text, offsets = self._normal[normal]
        needle = "\n" + "\n".join(normal(line) for line in wanted) + "\n"
        at = text.find(needle)
        while at >= 0:
            yield bisect_right(offsets, at) - 1
            at = text.find(needle, at + 1)

    def span(self, first: int, count: int, *, whole: bool) -> tuple[int, int]:
        """Offsets of `count` lines; with the last one's newline if `whole` and it has one."""
        last = first + count - 1
        end = self.starts[last] + len(self.lines[last])
        return self.starts[first], end + 1 if whole and last + 1 < len(self.lines) else end


def replace(original: str, old: str, new: str, *, every: bool = False, whole_lines: bool = False, path: str) -> Edited:
    """Put `new` where `old` stands. `whole_lines` never matches a part of a line."""
    view = Lines(original)
    old, new = with_newlines(old), with_newlines(new)
    if not old:
        raise ToolFailure(f"{path}: the text to replace is empty.", remedy="Name the text, or write the whole file.")
    if old == new:
        raise ToolFailure(f"{path}: the old and the new text are the same, so nothing would change.")
    hay = Haystack(view.text)
    for name, matcher in MATCHERS[1:] if whole_lines else MATCHERS:
        places = _disjoint(matcher(hay, old, new)) if every else matcher(hay, old, new)
        if not places:
            continue
        if len(places) > 1 and not every:
            raise ToolFailure(_ambiguous(path, name, [view.line_of(place.start) for place in places]))
        text = view.replaced([Replacement(place.start, place.end, place.new) for place in places])
        if text == original:
            raise ToolFailure(f"{path}: the file already reads like the new text; nothing would change.")
        return Edited(text=text, matcher=name, lines=tuple(view.line_of(place.start) for place in places))
    raise ToolFailure(_not_found(hay, old, path))


def _exact(hay: Haystack, old: str, new: str) -> list[Place]:
    places: list[Place] = []
    at = hay.text.find(old)
    while at >= 0 and len(places) < CANDIDATES_MAX:
        places.append(Place(at, at + len(old), new))
        at = hay.text.find(old, at + 1)
    return places


def _by_lines(normal: Callable[[str], str]) -> Matcher:
    def match(hay: Haystack, old: str, new: str) -> list[Place]:
        wanted, whole = _lines_of(old)
        if not any(normal(line) for line in wanted):
            return []
        return [_place(hay, first, len(wanted), new, whole) for first in _some(hay.blocks(wanted, normal))]

    return match


def _indented(hay: Haystack, old: str, new: str) -> list[Place]:
    """The same lines shifted as one: what is put in is shifted alike."""
    wanted, whole = _lines_of(old)
    places = []
    for first in _some(hay.blocks(wanted, str.strip)) if old.strip() else []:
        found = hay.lines[first : first + len(wanted)]
        shift = _shift(wanted, found)
        if shift is not None:
            places.append(_place(hay, first, len(wanted), _shifted(new, *shift), whole))
    return places


def _trimmed(hay: Haystack, old: str, new: str) -> list[Place]:
    """The same lines whatever their indentation: what is put in takes the file's, line by line where it is known."""
    wanted, whole = _lines_of(old)
    places = []
    for first in _some(hay.blocks(wanted, str.strip)) if old.strip() else []:
        indents = indents_of(wanted, hay.lines[first : first + len(wanted)])
        places.append(_place(hay, first, len(wanted), reindented(new, indents), whole))
    return places


def _unescaped(hay: Haystack, old: str, new: str) -> list[Place]:
    """A text that was escaped once too often."""
    plain = _unescape(old)
    if plain == old:
        return []
    return _exact(hay, plain, _unescape(new))


def _boundary(hay: Haystack, old: str, new: str) -> list[Place]:
    """Without the blank lines round it, which are then not put in either."""
    wanted, _ = _lines_of(old)
    head = next((n for n, line in enumerate(wanted) if line.strip()), 0)
    tail = next((n for n, line in enumerate(reversed(wanted)) if line.strip()), 0)
    if not head and not tail:
        return []
    core = "\n".join(wanted[head : len(wanted) - tail]) + "\n"
    lines, _ = _lines_of(new)
    while head and lines and not lines[0].strip():
        lines, head = lines[1:], head - 1
    while tail and lines and not lines[-1].strip():
        lines, tail = lines[:-1], tail - 1
    inner = "".join(f"{line}\n" for line in lines)
    for matcher in (_by_lines(as_is), _by_lines(str.rstrip), _indented, _trimmed):
        if places := matcher(hay, core, inner):
            return places
    return []


def _anchored(hay: Haystack, old: str, new: str) -> list[Place]:
    """The same first and last line, as many between, and those nearly the same."""
    wanted, whole = _lines_of(old)
    if len(wanted) < 3 or not wanted[0].strip() or not wanted[-1].strip():
        return []
    first, last = wanted[0].strip(), wanted[-1].strip()
    places = []
    tried = 0
    for at in range(len(hay.lines) - len(wanted) + 1):
        if hay.lines[at].strip() != first or hay.lines[at + len(wanted) - 1].strip() != last:
            continue
        tried += 1
        if tried > LISTED_MAX:
            return []
        found = hay.lines[at : at + len(wanted)]
        if _likeness(wanted[1:-1], found[1:-1]) >= SIMILARITY_MIN:
            places.append(_place(hay, at, len(wanted), reindented(new, indents_of(wanted, found)), whole))
    return places


def as_is(line: str) -> str:
    return line


def squeezed(line: str) -> str:
    return _SPACES.sub(" ", line.strip())


def asciified(line: str) -> str:
    """Typographic quotes, dashes and spaces as their plain kin."""
    return line.translate(_UNICODE).strip()


MATCHERS: tuple[tuple[str, Matcher], ...] = (
    ("exact", _exact),
    ("exact lines", _by_lines(as_is)),
    ("line ends trimmed", _by_lines(str.rstrip)),
    ("indentation shifted", _indented),
    ("lines trimmed", _trimmed),
    ("whitespace normalised", _by_lines(squeezed)),
    ("punctuation normalised", _by_lines(asciified)),
    ("escapes undone", _unescaped),
    ("blank lines trimmed", _boundary),
    ("first and last line", _anchored),
)
"""Strictest first."""


def _lines_of(text: str) -> tuple[list[str], bool]:
    """Its lines, and whether the last of them is ended."""
    lines = text.split("\n")
    return (lines[:-1], True) if len(lines) > 1 and not lines[-1] else (lines, False)


def _place(hay: Haystack, first: int, count: int, new: str, whole: bool) -> Place:
    start, end = hay.span(first, count, whole=whole)
    ended = end > start and hay.text[end - 1] == "\n"
    if whole and not ended and new.endswith("\n") and first + count == len(hay.lines):
        new = new[:-1]  # the file's last line has no newline, and keeps having none
    return Place(start, end, new)


def _some(found: Iterator[int]) -> list[int]:
    return [first for first, _ in zip(found, range(CANDIDATES_MAX), strict=False)]


def _disjoint(places: list[Place]) -> list[Place]:
    kept: list[Place] = []
    for place in places:
        if not kept or place.start >= kept[-1].end:
            kept.append(place)
    return kept


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _shift(wanted: Sequence[str], found: Sequence[str]) -> tuple[str, str] | None:
    """What all lines lost and gained in front; None where they differ in more than that."""
    shifts = set()
    for old, new in zip(wanted, found, strict=True):
        if not old.strip():
            continue
        before, after = _indent(old), _indent(new)
        if after.endswith(before):
            shifts.add(("", after[: len(after) - len(before)]))
        elif before.endswith(after):
            shifts.add((before[: len(before) - len(after)], ""))
        else:
            return None
    return shifts.pop() if len(shifts) == 1 else None


def _shifted(new: str, lost: str, gained: str) -> str:
    return "\n".join(gained + line.removeprefix(lost) if line.strip() else line for line in new.split("\n"))


def indents_of(wanted: Sequence[str], found: Sequence[str]) -> dict[str, str]:
    """Which indentation of the file stands for which of the model's; empty where that is not one to one."""
    indents: dict[str, str] = {}
    for old, new in zip(wanted, found, strict=True):
        if old.strip() and indents.setdefault(_indent(old), _indent(new)) != _indent(new):
            return {}
    return indents


def reindented(new: str, indents: dict[str, str]) -> str:
    lines = []
    for line in new.split("\n"):
        indent = _indent(line)
        known = max((old for old in indents if indent.startswith(old)), key=len, default=None)
        lines.append(line if known is None or not line.strip() else indents[known] + line[len(known) :])
    return "\n".join(lines)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text)


def _likeness(wanted: Sequence[str], found: Sequence[str]) -> float:
    scores = []
    for old, new in zip(wanted, found, strict=True):
        left, right = old.strip()[:400], new.strip()[:400]
        scores.append(1.0 if left == right else difflib.SequenceMatcher(None, left, right, autojunk=False).ratio())
    return sum(scores) / len(scores)


def listed(lines: Sequence[int]) -> str:
    """Line numbers in a sentence."""
    shown = ", ".join(str(line) for line in lines[:LISTED_MAX])
    return shown + (f" and {len(lines) - LISTED_MAX} more" if len(lines) > LISTED_MAX else "")


def _ambiguous(path: str, matcher: str, lines: Sequence[int]) -> str:
    return (
        f"{path}: the text to replace is found {len(lines)} times (match: {matcher}), at lines {listed(lines)}. "
        "Nothing was changed: add lines around it until it is the only one."
    )


def _not_found(hay: Haystack, old: str, path: str) -> str:
    """Say how far the nearest place agrees, since that is what the next try needs."""
    said = f"{path}: the text to replace is not in the file."
    wanted, _ = _lines_of(old)
    lead = next((n for n, line in enumerate(wanted) if line.strip()), 0)
    best, where = 0, -1
    for first in _some(hay.blocks([wanted[lead]], str.strip)) if wanted[lead].strip() else []:
        agree = 0
        while (
            lead + agree < len(wanted)
            and first + agree < len(hay.lines)
            and wanted[lead + agree].strip() == hay.lines[first + agree].strip()
        ):
            agree += 1
        if agree > best:
            best, where = agree, first
    if where < 0:
        return f"{said} Not even its first line {wanted[lead].strip()[:80]!r} is; read the file and copy what it says."
    if lead + best >= len(wanted):
        return f"{said} Its lines stand at line {where + 1}, but with other blank lines around them."
    there = repr(hay.lines[where + best][:200]) if where + best < len(hay.lines) else "the end of the file"
    return (
        f"{said} It agrees from line {where + 1} on, until at line {where + best + 1} the file has {there} "
        f"and not {wanted[lead + best][:200]!r}."
    )
