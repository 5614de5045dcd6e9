"""Unified diffs, from git, diff and models. Line numbers say where to look; the lines themselves decide.

Bytes count: a diff may change line ends and the final newline, so lines are first compared with theirs. A model's diff
with wrong counts or numbers, or without line ends, is taken for what it says where that fits one place only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from turnwright.schema.errors import ToolFailure
from turnwright.tools.matchers import Haystack, as_is, listed
from turnwright.tools.patch.operations import Add, Delete, Operation, Rewritten, Update
from turnwright.tools.text import line_end_of

Mark: TypeAlias = Literal[" ", "-", "+"]

HUNK = re.compile(r"@@(?: -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))?)?(?: @@.*| \.\.\. @@.*|\s*)")
_GIT = re.compile(r'diff --git (?:"a/(?P<qa>.*)" "b/(?P<qb>.*)"|a/(?P<a>.*) b/(?P<b>.*))')
_OCTAL = re.compile(rb"\\([0-7]{3}|.)")
_C_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
SIGNATURE = "-- "
"""What `git format-patch` puts before its version, at the end."""
_PERMISSIONS = {"100644": 0o644, "100755": 0o755}


class Hunk(msgspec.Struct, frozen=True, kw_only=True):
    """`old_start` counts from 1; None where the header names no line. Texts carry their newline, or have none."""

    old_start: int | None
    lines: tuple[tuple[Mark, str], ...]
    number: int

    @property
    def old(self) -> list[str]:
        return [text for mark, text in self.lines if mark != "+"]

    @property
    def new(self) -> list[str]:
        return [text for mark, text in self.lines if mark != "-"]


class Hunks(msgspec.Struct, frozen=True):
    """All hunks of one file."""

    hunks: tuple[Hunk, ...]

    def apply(self, text: str, path: str) -> Rewritten:
        lines = _split(text)
        hay = Haystack(text)
        pieces: list[str] = []
        notes: list[str] = []
        cursor, drift = 0, 0
        for hunk in self.hunks:
            at, tolerant = _locate(lines, hay, hunk, cursor, drift, path)
            pieces += lines[cursor:at]
            pieces += _rewritten(lines, hunk, at, text) if tolerant else hunk.new
            expected = _expected(hunk)
            if expected is not None:
                if at != expected + drift:
                    notes.append(f"the hunk at line {hunk.number} of the patch went to line {at + 1}")
                drift = at - expected
            if tolerant:
                notes.append(f"the hunk at line {hunk.number} of the patch fits but for space at line ends")
            cursor = at + len(hunk.old)
        pieces += lines[cursor:]
        return Rewritten("".join([_ended(line) for line in pieces[:-1]] + pieces[-1:]), tuple(notes))


class Entry(msgspec.Struct, kw_only=True):
    """One file of a diff while it is read."""

    number: int
    old: str | None = None
    new: str | None = None
    hunks: list[Hunk] = []
    mode: int | None = None
    is_named: bool = False
    is_moved: bool = False
    is_copied: bool = False
    is_new: bool = False
    is_deleted: bool = False


def parse_udiff(text: str) -> list[Operation]:
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if all(line.endswith("\r") for line in lines):
        lines = [line[:-1] for line in lines]  # the patch itself was saved with such line ends
    entries: list[Entry] = []
    at = 0
    while at < len(lines):
        line = lines[at].rstrip("\r")
        if line.startswith("diff --git "):
            entries.append(_git_entry(line, at + 1))
        elif line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            _name_files(entries, line, lines[at + 1].rstrip("\r"), at + 1)
            at += 1
        elif line.startswith("@@") and HUNK.fullmatch(line) is not None:
            if not entries or (entries[-1].old is None and entries[-1].new is None):
                raise ToolFailure(f"Line {at + 1} of the patch begins a hunk before any file was named.")
            hunk, at = _parse_hunk(lines, at)
            entries[-1].hunks.append(hunk)
            continue
        elif entries:
            _git_line(entries[-1], line, at + 1)
        at += 1
    if not entries:
        raise ToolFailure("There is no file in the patch.", remedy="A unified diff names files by '--- ' and '+++ '.")
    return [_operation(entry) for entry in entries]


def _parse_hunk(lines: Sequence[str], at: int) -> tuple[Hunk, int]:
    """The counts of the header bound the hunk where they fit; else it ends where another header begins."""
    header = HUNK.fullmatch(lines[at].rstrip("\r"))
    assert header is not None
    start = int(header[1]) if header[1] is not None else None
    number = at + 1
    if start is not None:
        counts = int(header[2] or 1) if header[2] != "0" else 0, int(header[4] or 1) if header[4] != "0" else 0
        counted = _by_counts(lines, at + 1, *counts)
        if counted is not None:
            body, end = counted
            return Hunk(old_start=start, lines=body, number=number), end
    body, end = _by_marks(lines, at + 1)
    if not body:
        raise ToolFailure(f"Line {number} of the patch opens a hunk that changes nothing.")
    return Hunk(old_start=start, lines=body, number=number), end


def _by_counts(lines: Sequence[str], at: int, old: int, new: int) -> tuple[tuple[tuple[Mark, str], ...], int] | None:
    body: list[tuple[Mark, str]] = []
    while old > 0 or new > 0:
        marked = _marked(lines[at]) if at < len(lines) else None
        if marked is None:
            return None
        mark, text = marked
        old -= mark != "+"
        new -= mark != "-"
        if old < 0 or new < 0:
            return None
        body.append((mark, text + "\n"))
        at += 1
        if at < len(lines) and lines[at].startswith("\\"):
            body[-1] = mark, text
            at += 1
    if at < len(lines) and lines[at][:1] in ("+", "-", " ") and not _begins_file(lines, at) and lines[at] != SIGNATURE:
        return None  # the counts are too small for what is there
    return tuple(body), at


def _by_marks(lines: Sequence[str], at: int) -> tuple[tuple[tuple[Mark, str], ...], int]:
    body: list[tuple[Mark, str]] = []
    while at < len(lines) and not lines[at].startswith(("@@", "diff --git ")) and not _begins_file(lines, at):
        if lines[at].startswith("\\") and body:
            body[-1] = body[-1][0], body[-1][1].removesuffix("\n")
        else:
            marked = _marked(lines[at])
            if marked is None:
                break
            body.append((marked[0], marked[1] + "\n"))
        at += 1
    while body and body[-1] == (" ", "\n") and not lines[at - 1]:
        body.pop()  # an empty line that only parts this hunk from what follows
        at -= 1
    return tuple(body), at


def _begins_file(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _marked(line: str) -> tuple[Mark, str] | None:
    match line[:1]:
        case " " | "-" | "+" as mark:
            return mark, line[1:]
        case "" | "\r":
            return " ", line
        case _:
            return None


def _git_entry(line: str, number: int) -> Entry:
    found = _GIT.fullmatch(line)
    if found is None:
        return Entry(number=number)
    if found["qa"] is not None:
        return Entry(number=number, old=_unquoted(found["qa"]), new=_unquoted(found["qb"]))
    return Entry(number=number, old=found["a"], new=found["b"])


def _git_line(entry: Entry, line: str, number: int) -> None:
    """The extended header lines of git, which stand between `diff --git` and the hunks."""
    for start in ("rename from ", "copy from "):
        if line.startswith(start):
            entry.old, entry.is_moved, entry.is_copied = _named(line.removeprefix(start)), True, start == "copy from "
    for start in ("rename to ", "copy to "):
        if line.startswith(start):
            entry.new = _named(line.removeprefix(start))
    for start in ("new file mode ", "new mode "):
        if line.startswith(start):
            entry.mode = _permissions(line.removeprefix(start).strip(), number)
            entry.is_new = entry.is_new or start == "new file mode "
    if line.startswith("deleted file mode "):
        entry.is_deleted = True
    if line.startswith(("GIT binary patch", "Binary files ")):
        raise ToolFailure(f"Line {number} of the patch is about binary data, which a text patch cannot change.")


def _permissions(mode: str, number: int) -> int:
    if mode not in _PERMISSIONS:
        raise ToolFailure(f"Line {number} of the patch asks for mode {mode}: only plain files can be patched.")
    return _PERMISSIONS[mode]


def _name_files(entries: list[Entry], old_line: str, new_line: str, number: int) -> None:
    """`--- a/x` and `+++ b/x`. They open a file unless git's own header just did."""
    old, new = _header_path(old_line[4:]), _header_path(new_line[4:])
    if not entries or entries[-1].is_named or entries[-1].hunks:
        entries.append(Entry(number=number))
    entry = entries[-1]
    entry.is_named = True
    if old is not None and new is not None and old.startswith("a/") and new.startswith("b/"):
        old, new = old[2:], new[2:]
    elif old is None and new is not None:
        new = new.removeprefix("b/")
    elif new is None and old is not None:
        old = old.removeprefix("a/")
    entry.old, entry.new = old, new
    entry.is_new, entry.is_deleted = entry.is_new or old is None, entry.is_deleted or new is None


def _operation(entry: Entry) -> Operation:
    rewrite = Hunks(tuple(entry.hunks)) if entry.hunks else None
    old, new = entry.old or entry.new, entry.new or entry.old
    if old is None or new is None or (entry.is_new and entry.is_deleted):
        raise ToolFailure(f"Line {entry.number} of the patch names no file.")
    if entry.is_new:
        added = "" if rewrite is None else rewrite.apply("", new).text
        return Add(path=new, text=added, mode=entry.mode, only_new=True)
    if entry.is_deleted:
        return Delete(path=old, rewrite=rewrite)
    if not entry.is_moved:
        old = new  # `--- x.orig` names what was compared, not a file to move
    elif entry.is_copied or old != new:
        return Update(path=old, rewrite=rewrite, move_to=new, mode=entry.mode, keep_source=entry.is_copied)
    if rewrite is None and entry.mode is None:
        raise ToolFailure(f"Line {entry.number} of the patch names {new} without changing it.")
    return Update(path=new, rewrite=rewrite, mode=entry.mode)


def _header_path(text: str) -> str | None:
    """Without the time stamp that `diff -u` adds after a tab; None for /dev/null."""
    name = _named(text.split("\t", 1)[0].rstrip() if not text.startswith('"') else text.rstrip())
    return None if name == "/dev/null" else name


def _named(text: str) -> str:
    return _unquoted(text[1:-1]) if len(text) > 1 and text[0] == text[-1] == '"' else text


def _unquoted(text: str) -> str:
    """git writes unusual names in C's escapes, byte by byte."""

    def byte(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return bytes([int(code, 8) & 255]) if len(code) == 3 else _C_ESCAPES.get(code, code)

    return _OCTAL.sub(byte, text.encode()).decode("utf-8", "replace")


def _split(text: str) -> list[str]:
    """Lines with their newlines; a carriage return is a character like any other."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines


def _expected(hunk: Hunk) -> int | None:
    """The index its header names. A hunk that takes nothing away stands after the line it names."""
    if hunk.old_start is None:
        return None
    return hunk.old_start if not hunk.old else max(hunk.old_start - 1, 0)


def _locate(lines: Sequence[str], hay: Haystack, hunk: Hunk, cursor: int, drift: int, path: str) -> tuple[int, bool]:
    """Where it goes, and whether line ends had to be forgiven."""
    expected = _expected(hunk)
    if not hunk.old:
        at = len(lines) if expected is None else expected + drift
        if not cursor <= at <= len(lines):
            raise ToolFailure(
                f"{path}: the hunk at line {hunk.number} of the patch adds after a line that is not there."
            )
        return at, False
    for tolerant in (False, True):
        places = _places(lines, hay, hunk, cursor, tolerant=tolerant)
        if expected is not None and expected + drift in places:
            return expected + drift, tolerant
        if len(places) > 1:
            raise ToolFailure(
                f"{path}: the hunk at line {hunk.number} of the patch fits at lines {listed([at + 1 for at in places])}"
                + ("." if expected is None else f", and not at line {expected + drift + 1} as it says."),
                remedy="Correct its line number, or give it more context.",
            )
        if places:
            return places[0], tolerant
    raise ToolFailure(_mismatch(lines, hunk, expected, drift, path))


def _places(lines: Sequence[str], hay: Haystack, hunk: Hunk, cursor: int, *, tolerant: bool) -> list[int]:
    old = [line.removesuffix("\n") for line in hunk.old]
    found = [
        at for at in hay.blocks(old, str.rstrip if tolerant else as_is) if cursor <= at and at + len(old) <= len(lines)
    ]
    return found if tolerant else [at for at in found if lines[at + len(old) - 1] == hunk.old[-1]]


def _mismatch(lines: Sequence[str], hunk: Hunk, expected: int | None, drift: int, path: str) -> str:
    said = f"{path}: the hunk at line {hunk.number} of the patch does not match the file"
    if expected is None:
        return f"{said}. Read the file and copy its lines."
    for offset, wanted in enumerate(hunk.old):
        at = expected + drift + offset
        there = lines[at] if 0 <= at < len(lines) else None
        if there is None or there.rstrip() != wanted.rstrip():
            shown = "the end of the file" if there is None else repr(there.rstrip("\n")[:200])
            expected_line = repr(wanted.rstrip("\n")[:200])
            return f"{said}: line {at + 1} is {shown}, and not {expected_line}. Nor do its lines stand elsewhere."
    return f"{said}, where the hunk before it already changed these lines."


def _rewritten(lines: Sequence[str], hunk: Hunk, at: int, text: str) -> list[str]:
    """The hunk's lines with the file's own line ends and its own context."""
    end = line_end_of(text)
    made: list[str] = []
    for mark, line in hunk.lines:
        match mark:
            case " ":
                made.append(lines[at])
                at += 1
            case "-":
                at += 1
            case "+":
                made.append(line.rstrip("\r\n") + (end if line.endswith("\n") else ""))
    return made


def _ended(line: str) -> str:
    """A line before another has an end, also one that was the last until now."""
    return line if line.endswith("\n") else line + "\n"
