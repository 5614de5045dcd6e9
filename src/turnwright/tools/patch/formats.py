"""The four formats behind one door: which one it is, which files it names, what it asks of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, get_args

import msgspec

from turnwright.schema.errors import InputError, ToolFailure
from turnwright.tools.patch.apply_patch import BEGIN, parse_apply_patch
from turnwright.tools.patch.operations import Add, Missing, Operation, Plan, State, Update, paths_of, plan, relative
from turnwright.tools.patch.search_replace import SEARCH, operations_of, parse_search_replace
from turnwright.tools.patch.udiff import parse_udiff
from turnwright.tools.patch.v4a import Chunks, parse_chunks
from turnwright.tools.text import with_newlines

Format: TypeAlias = Literal["apply_patch", "search_replace", "udiff", "v4a_diff"]
DiffMode: TypeAlias = Literal["create", "update"]
"""What a `v4a_diff` does with its one file."""

FORMATS: tuple[Format, ...] = get_args(Format)

_UDIFF = re.compile(r"^(diff --git |--- \S.*\n\+\+\+ \S)", re.MULTILINE)
_V4A_HEADER = re.compile(r"\*\*\* (Add|Update) File: (.+)")


class Parsed(msgspec.Struct, frozen=True):
    """A patch that was understood. `paths` are the files to look at before it can be planned."""

    paths: tuple[str, ...]
    operations: Callable[[Mapping[str, State]], list[Operation]]

    def plan(self, files: Mapping[str, State]) -> Plan:
        return plan(self.operations(files), files)


def detect(text: str) -> Format:
    """By what only that format has."""
    lines = with_newlines(text).split("\n")
    if any(line.strip() == BEGIN for line in lines):
        return "apply_patch"
    if any(SEARCH.fullmatch(line) for line in lines):
        return "search_replace"
    if _UDIFF.search(with_newlines(text)):
        return "udiff"
    if any(line.startswith("@@") or _V4A_HEADER.fullmatch(line) for line in lines):
        return "v4a_diff"
    raise ToolFailure(
        "The text is none of the known patch formats.", remedy=f"Send {', '.join(FORMATS[:-1])} or {FORMATS[-1]}."
    )


def parse(form: Format, text: str, *, path: str = "", mode: DiffMode | None = None) -> Parsed:
    """`path` and `mode` are for `v4a_diff`, which does not name its file."""
    match form:
        case "apply_patch":
            return _fixed(parse_apply_patch(text))
        case "udiff":
            return _fixed(parse_udiff(text))
        case "search_replace":
            blocks = parse_search_replace(text)
            paths = tuple(dict.fromkeys(relative(block.path) for block in blocks))
            return Parsed(paths, lambda files: operations_of(blocks, _existing(files)))
        case "v4a_diff":
            return _v4a(text, path, mode)
        case _:
            raise InputError(f"There is no patch format {form!r}.", remedy=f"Known formats: {', '.join(FORMATS)}.")


def names_its_file(text: str) -> bool:
    """Whether a `v4a_diff` begins with a file header of the envelope."""
    return _V4A_HEADER.fullmatch(with_newlines(text).split("\n")[0]) is not None


def _fixed(operations: list[Operation]) -> Parsed:
    return Parsed(tuple(paths_of(operations)), lambda _files: operations)


def _existing(files: Mapping[str, State]) -> frozenset[str]:
    return frozenset(path for path, state in files.items() if not isinstance(state, Missing))


def _v4a(text: str, path: str, mode: DiffMode | None) -> Parsed:
    lines = with_newlines(text).split("\n")
    number = 1
    header = _V4A_HEADER.fullmatch(lines[0])
    if header is not None:
        path, lines, number = path or header[2].strip(), lines[1:], 2
        mode = mode or ("create" if header[1] == "Add" else "update")
    if not path:
        raise ToolFailure("A v4a_diff does not say which file it is for.", remedy="Name the path.")
    target = relative(path)

    def operations(files: Mapping[str, State]) -> list[Operation]:
        if (mode or ("create" if isinstance(files[target], Missing) else "update")) == "create":
            return [Add(path=target, text=_created(lines, number), only_new=True)]
        body = lines[:-1] if lines and not lines[-1] else lines
        chunks = parse_chunks(body, number)
        if not chunks:
            raise ToolFailure("The patch changes no files.")
        return [Update(path=target, rewrite=Chunks(chunks, whole_lines=False))]

    return Parsed((target,), operations)


def _created(lines: list[str], number: int) -> str:
    """Lines are parted, not ended, by newlines here: a last `+` alone is the final newline."""
    body = lines[:-1] if lines and not lines[-1] else lines
    for offset, line in enumerate(body):
        if not line.startswith("+"):
            raise ToolFailure(
                f"Line {number + offset} of the patch, {line[:80]!r}, cannot be in a file to create.",
                remedy="Begin every line of it with +.",
            )
    return "\n".join(line[1:] for line in body)
