"""The `*** Begin Patch` envelope: files to add, delete, update and move."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnwright.schema.errors import ToolFailure
from turnwright.tools.patch.operations import Add, Delete, Operation, Update
from turnwright.tools.patch.v4a import END_OF_FILE, Chunks, parse_chunks
from turnwright.tools.text import with_newlines

BEGIN, END = "*** Begin Patch", "*** End Patch"
MOVE = "*** Move to: "
_HEADER = re.compile(r"\*\*\* (Add File|Delete File|Update File): (.+)")
_HEREDOC = re.compile(r"<<\s*(['\"]?)(\w+)\1\s*$")


def parse_apply_patch(text: str) -> list[Operation]:
    lines = with_newlines(text).split("\n")
    first, last = _envelope(lines)
    operations: list[Operation] = []
    at = first + 1
    while at < last:
        if not lines[at].strip():
            at += 1
            continue
        header = _HEADER.fullmatch(lines[at].strip())
        if header is None:
            raise ToolFailure(
                f"Line {at + 1} of the patch, {lines[at].strip()[:80]!r}, is not a file header.",
                remedy="Use '*** Add File: ', '*** Update File: ' or '*** Delete File: ' and a path.",
            )
        moves = lines[at + 1].strip().startswith(MOVE)
        end = _section_end(lines, at + 2 if moves else at + 1, last)
        operations.append(_operation(header[1], header[2].strip(), lines, at, end))
        at = end
    return operations


def _envelope(lines: Sequence[str]) -> tuple[int, int]:
    """The markers, in whatever the model wrapped them: space, a code fence, a shell here-document."""
    marks = [number for number, line in enumerate(lines) if line.strip() == BEGIN]
    ends = [number for number, line in enumerate(lines) if line.strip() == END]
    if not marks:
        raise ToolFailure(f"The patch does not begin with the line {BEGIN!r}.")
    if not ends or ends[-1] < marks[0]:
        raise ToolFailure(f"The patch does not end with the line {END!r}; it may have been cut off.")
    if len(marks) > 1 or len(ends) > 1:
        raise ToolFailure(f"The patch has {max(len(marks), len(ends))} envelopes.", remedy="Put all files in one.")
    for number in (*range(marks[0]), *range(ends[0] + 1, len(lines))):
        line = lines[number].strip()
        if line and not _is_wrapping(line, lines):
            where = "before" if number < marks[0] else "after"
            raise ToolFailure(
                f"Line {number + 1}, {line[:80]!r}, stands {where} the patch.", remedy="Send the patch alone."
            )
    return marks[0], ends[0]


def _is_wrapping(line: str, lines: Sequence[str]) -> bool:
    if line.startswith(("```", "~~~")) or _HEREDOC.search(line) is not None:
        return True
    words = {found[2] for found in map(_HEREDOC.search, lines) if found is not None}
    return line in words


def _section_end(lines: Sequence[str], at: int, last: int) -> int:
    """Where the next header is; one with space before it is context of this section."""
    while at < last and (not lines[at].startswith("***") or lines[at].strip() == END_OF_FILE):
        at += 1
    return at


def _operation(kind: str, path: str, lines: Sequence[str], at: int, end: int) -> Operation:
    body = lines[at + 1 : end]
    match kind:
        case "Add File":
            return Add(path=path, text=_added(body, at + 2))
        case "Delete File":
            if any(line.strip() for line in body):
                raise ToolFailure(f"Line {at + 2} of the patch: deleting {path} takes no further lines.")
            return Delete(path=path)
        case _:
            return _updated(path, body, at + 2)


def _added(body: Sequence[str], number: int) -> str:
    while body and not body[-1].strip():
        body = body[:-1]
    for offset, line in enumerate(body):
        if not line.startswith("+"):
            raise ToolFailure(
                f"Line {number + offset} of the patch, {line[:80]!r}, cannot be in a file to add.",
                remedy="Begin every line of it with +.",
            )
    return "".join(f"{line[1:]}\n" for line in body)


def _updated(path: str, body: Sequence[str], number: int) -> Update:
    move_to: str | None = None
    if body and body[0].strip().startswith(MOVE):
        move_to, body, number = body[0].strip().removeprefix(MOVE).strip(), body[1:], number + 1
    chunks = parse_chunks(body, number)
    if not chunks and move_to is None:
        raise ToolFailure(f"Line {number - 1} of the patch updates {path} without saying how.")
    return Update(path=path, rewrite=Chunks(chunks) if chunks else None, move_to=move_to)
