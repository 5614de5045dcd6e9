"""What became of files, as a patch that git understands: text line by line, everything else by name and mode."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from turnwright.views.text import Line, Span, Style, line, safe

NULL = "/dev/null"
_KIND_BITS = {"file": 0o100000, "link": 0o120000, "folder": 0o040000}


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """A path at one of the two times."""

    kind: Literal["file", "link", "folder"]
    mode: int
    size: int = 0
    text: str | None = None
    """None: not text, too large to be shown, or not kept."""

    @property
    def git_mode(self) -> str:
        return f"{_KIND_BITS[self.kind] | self.mode:06o}"


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    before: Side | None
    after: Side | None


def patch_lines(changes: Sequence[FileChange]) -> list[Line]:
    """Without what a terminal would obey."""
    return [_styled(said) for change in changes for said in patch_of(change)]


def patch_of(change: FileChange) -> Iterator[str]:
    before, after = change.before, change.after
    a, b = f"a/{change.path}", f"b/{change.path}"
    yield f"diff --git {a} {b}"
    if before is None and after is not None:
        yield f"new file mode {after.git_mode}"
    elif after is None and before is not None:
        yield f"deleted file mode {before.git_mode}"
    elif before is not None and after is not None and before.git_mode != after.git_mode:
        yield f"old mode {before.git_mode}"
        yield f"new mode {after.git_mode}"
    sides = [side for side in (before, after) if side is not None and side.kind != "folder"]
    if not sides:
        return
    if any(side.text is None for side in sides):
        sizes = " and ".join(f"{side.size:,} bytes" for side in sides)
        yield f"Binary files {a if before else NULL} and {b if after else NULL} differ ({sizes})"
        return
    yield from _hunks(a if before else NULL, b if after else NULL, _text(before), _text(after))


def _text(side: Side | None) -> str:
    return (side.text or "") if side is not None and side.kind != "folder" else ""


def _hunks(a: str, b: str, before: str, after: str) -> Iterator[str]:
    """By newlines alone: a carriage return is part of its line, as git has it."""
    for said in difflib.unified_diff(_lines(before), _lines(after), a, b):
        yield said.removesuffix("\n")
        if not said.endswith("\n") and said[0] in " +-":
            yield "\\ No newline at end of file"


def _lines(text: str) -> list[str]:
    lines = [each + "\n" for each in text.split("\n")]
    last = lines.pop()
    return lines if last == "\n" else [*lines, last[:-1]]


def _styled(said: str) -> Line:
    style: Style = "plain"
    if said.startswith("@@"):
        style = "dim"
    elif said.startswith(("diff ", "--- ", "+++ ", "Binary ", "old mode", "new mode", "new file", "deleted file")):
        style = "heading"
    elif said.startswith("+"):
        style = "good"
    elif said.startswith("-"):
        style = "bad"
    return line(Span(safe(said), style))
