"""The `@@` sections of one file, as OpenAI's models write them: anchors and context instead of line numbers.

A section is found by what it says, from where the one before it ended. Space and typography are forgiven step by step.
Two places that would do are a refusal, unless the order of the sections leaves only one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from turnwright.schema.errors import ToolFailure
from turnwright.tools.matchers import Haystack, as_is, asciified, indents_of, listed, reindented
from turnwright.tools.patch.operations import Rewritten
from turnwright.tools.text import Lines, Replacement

Mark: TypeAlias = Literal[" ", "-", "+"]

END_OF_FILE = "*** End of File"
_RANGE = re.compile(r"-\d+(,\d+)? \+\d+(,\d+)? @@.*")
_TIERS = (
    ("", as_is),
    ("space at line ends", str.rstrip),
    ("indentation", str.strip),
    ("typography", asciified),
)


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """One section. `number` is its line in the patch."""

    anchors: tuple[str, ...] = ()
    lines: tuple[tuple[Mark, str], ...]
    at_end: bool = False
    number: int = 0

    @property
    def wanted(self) -> list[str]:
        return [text for mark, text in self.lines if mark != "+"]


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """Where a chunk may go: the first line of each place, and what was forgiven to find it."""

    chunk: Chunk
    places: tuple[int, ...]
    forgiven: str = ""
    height: int = 0


class Chunks(msgspec.Struct, frozen=True):
    """All sections of one file. With `whole_lines` a last line that is replaced ends in a newline."""

    chunks: tuple[Chunk, ...]
    whole_lines: bool = True

    def apply(self, text: str, path: str) -> Rewritten:
        view = Lines(text)
        page = Page(view.text)
        spots = _unique(_leftmost(page, self.chunks, path), page, path)
        replacements: list[Replacement] = []
        for spot in spots:
            replacements += _replacements(page, spot, self.whole_lines)
        notes = tuple(
            f"line {spot.chunk.number} of the patch fits line {spot.places[0] + 1} but for {spot.forgiven}"
            for spot in spots
            if spot.forgiven
        )
        return Rewritten(view.replaced(replacements), notes)


class Page:
    """A file's lines in the newline view, without the empty one after a final newline."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.hay = Haystack(text.removesuffix("\n"))
        self.lines = self.hay.lines if text else []

    def offset(self, line: int) -> int:
        return self.hay.starts[line] if line < len(self.lines) else len(self.text)


def parse_chunks(lines: Sequence[str], first_number: int) -> tuple[Chunk, ...]:
    """`lines` are those of one file, without line ends."""
    chunks: list[Chunk] = []
    anchors: list[str] = []
    body: list[tuple[Mark, str]] = []
    start, opened = first_number, False

    def close(at_end: bool = False) -> None:
        nonlocal anchors, body, opened
        if opened and not body:
            raise ToolFailure(f"Line {start} of the patch opens a section that changes nothing.")
        if body:
            chunks.append(Chunk(anchors=tuple(anchors), lines=tuple(body), at_end=at_end, number=start))
        anchors, body, opened = [], [], False

    for number, line in enumerate(lines, first_number):
        if line.startswith("@@"):
            if body:
                close()
            start, opened = number if not opened else start, True
            anchors += _anchor(line)
        elif line.strip() == END_OF_FILE:
            close(at_end=True)
        elif line.strip() or opened or body:
            start = start if opened or body else number
            body.append(_marked(line, number))
    close()
    return tuple(chunks)


def _anchor(line: str) -> list[str]:
    text = line[2:].removeprefix(" ").rstrip()
    return [text] if text and _RANGE.fullmatch(text) is None else []


def _marked(line: str, number: int) -> tuple[Mark, str]:
    match line[:1]:
        case " " | "-" | "+" as mark:
            return mark, line[1:]
        case "":
            return " ", ""
        case _:
            raise ToolFailure(
                f"Line {number} of the patch, {line[:80]!r}, is neither context, - nor +.",
                remedy="Begin every line of a section with a space, - or +.",
            )


def _leftmost(page: Page, chunks: Sequence[Chunk], path: str) -> list[Spot]:
    """Every chunk at the first place after the one before it, with the other places it could have."""
    spots: list[Spot] = []
    cursor = 0
    for chunk in chunks:
        spot = _spot(page, chunk, cursor, path)
        spots.append(spot)
        cursor = spot.places[0] + spot.height
    return spots


def _unique(spots: list[Spot], page: Page, path: str) -> list[Spot]:
    """Refuse unless the last possible place of each chunk is its first, given the order."""
    limit = len(page.lines)
    for spot in reversed(spots):
        last = max(place for place in spot.places if place + spot.height <= limit)
        if last != spot.places[0]:
            raise ToolFailure(
                f"{path}: the change at line {spot.chunk.number} of the patch fits at lines "
                f"{listed([place + 1 for place in spot.places])}.",
                remedy="Add context, or an @@ line that names the function or class it is in.",
            )
        limit = last
    return spots


def _spot(page: Page, chunk: Chunk, cursor: int, path: str) -> Spot:
    anchored = _anchored(page, chunk, cursor, path)
    if not chunk.wanted:
        if chunk.anchors and anchored is None:
            raise _no_anchor(chunk, path)
        places = (len(page.lines),) if not anchored or chunk.at_end else tuple(line + 1 for line in anchored)
        return Spot(chunk=chunk, places=places)
    forgiven = "its @@ line, which is not in the file" if chunk.anchors and anchored is None else ""
    for variant in _variants(chunk):
        for tier, normal in _TIERS:
            found = [
                place
                for place in page.hay.blocks(variant.wanted, normal)
                if place >= cursor and place + len(variant.wanted) <= len(page.lines)
            ]
            places = _chosen(found, variant, anchored, len(page.lines))
            if places:
                words = " and ".join(filter(None, (tier, forgiven)))
                return Spot(chunk=variant, places=places, forgiven=words, height=len(variant.wanted))
    raise ToolFailure(_mismatch(page, chunk, cursor, path))


def _variants(chunk: Chunk) -> list[Chunk]:
    """As it stands, then without blank lines at its end, which a model adds between sections."""
    lines = chunk.lines
    while len(lines) > 1 and lines[-1] == (" ", ""):
        lines = lines[:-1]
    return [chunk] if lines == chunk.lines else [chunk, msgspec.structs.replace(chunk, lines=lines)]


def _chosen(found: list[int], chunk: Chunk, anchored: list[int] | None, height: int) -> tuple[int, ...]:
    at_end = [place for place in found if chunk.at_end and place + len(chunk.wanted) == height]
    if at_end:
        return tuple(at_end)
    if anchored:
        firsts = {next((place for place in found if place >= line), -1) for line in anchored}
        return tuple(sorted(firsts - {-1}))
    return tuple(found)


def _anchored(page: Page, chunk: Chunk, cursor: int, path: str) -> list[int] | None:
    """The lines that the innermost anchor may mean: empty without anchors, None where a lone one is not found."""
    if not chunk.anchors:
        return []
    outer, *inner = chunk.anchors
    lines = _lines_like(page, outer, cursor) or (_lines_like(page, outer, 0) if inner else [])
    for anchor in inner:
        nexts = (_lines_like(page, anchor, max(line + 1, cursor))[:1] for line in lines)
        lines = sorted({line for some in nexts for line in some})
    if lines:
        return lines
    if inner:
        raise _no_anchor(chunk, path)
    return None


def _lines_like(page: Page, anchor: str, start: int) -> list[int]:
    for _, normal in _TIERS:
        found = [line for line in page.hay.blocks([anchor], normal) if start <= line < len(page.lines)]
        if found:
            return found
    return []


def _no_anchor(chunk: Chunk, path: str) -> ToolFailure:
    return ToolFailure(
        f"{path}: {' / '.join(chunk.anchors)!r}, to which line {chunk.number} of the patch is anchored, is not there.",
        remedy="Copy the anchor from the file as it is now.",
    )


def _mismatch(page: Page, chunk: Chunk, cursor: int, path: str) -> str:
    shown = next((line for line in chunk.wanted if line.strip()), "")
    if list(page.hay.blocks(chunk.wanted, str.strip)):
        return (
            f"{path}: the change at line {chunk.number} of the patch belongs before line {cursor + 1}, where the one "
            "before it ended. Put the sections in the order of the file."
        )
    near = [line + 1 for line in page.hay.blocks([shown], str.strip)] if shown else []
    where = f"line {listed(near)} has it, but the lines around it differ" if near else "no line has it"
    return (
        f"{path}: the context of the change at line {chunk.number} of the patch does not match the file. Its first "
        f"line is {shown[:80]!r}; {where}. Read the file and copy what it says."
    )


def _replacements(page: Page, spot: Spot, whole_lines: bool) -> list[Replacement]:
    """Only what is removed and added: context keeps the file's own words."""
    at = spot.places[0]
    indents = indents_of(spot.chunk.wanted, page.lines[at : at + spot.height])
    made: list[Replacement] = []
    removed = 0
    added: list[str] = []

    def flush() -> None:
        nonlocal removed, added
        if removed or added:
            made.append(_replacement(page, at - removed, removed, added, whole_lines))
        removed, added = 0, []

    for mark, text in spot.chunk.lines:
        match mark:
            case " ":
                flush()
                at += 1
            case "-":
                at, removed = at + 1, removed + 1
            case "+":
                added.append(reindented(text, indents) if spot.forgiven else text)
    flush()
    return made


def _replacement(page: Page, line: int, removed: int, added: list[str], whole_lines: bool) -> Replacement:
    start, end = page.offset(line), page.offset(line + removed)
    new = "".join(f"{text}\n" for text in added)
    if end == len(page.text) and page.text and not page.text.endswith("\n"):
        if not removed:
            new = "\n" + new
        if not whole_lines:
            new = new.removesuffix("\n")
    return Replacement(start, end, new)
