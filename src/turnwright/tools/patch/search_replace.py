"""SEARCH/REPLACE blocks, as they stand in a model's reply: a path, what to find, what to put there."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from turnwright.schema.errors import ToolFailure
from turnwright.tools.matchers import replace
from turnwright.tools.patch.operations import Add, Operation, Rewritten, Update
from turnwright.tools.text import with_newlines

SEARCH = re.compile(r"(<{5,9}) SEARCH>?\s*")
_DIVIDER = re.compile(r"(={5,9})\s*")
_REPLACE = re.compile(r"(>{5,9}) REPLACE\s*")
_FENCE = re.compile(r"\s*(`{3,}|~{3,}|</?(?:source|code|pre|codeblock|sourcecode)>)(.*)")
_LOOK_BACK = 3


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One block. `number` is its line in the reply."""

    path: str
    search: str
    replace: str
    number: int


class Blocks(msgspec.Struct, frozen=True):
    """All blocks of one file, made in order on whole lines."""

    blocks: tuple[Block, ...]

    def apply(self, text: str, path: str) -> Rewritten:
        notes: list[str] = []
        for block in self.blocks:
            if not block.search.strip():
                if text:
                    raise ToolFailure(
                        f"{path}: the block at line {block.number} searches for nothing, but the file is not empty.",
                        remedy="Name lines to replace.",
                    )
                text = block.replace
                continue
            try:
                edited = replace(text, block.search, block.replace, whole_lines=True, path=path)
            except ToolFailure as failure:
                raise ToolFailure(f"Block at line {block.number}: {failure}") from None
            text = edited.text
            if edited.matcher != "exact lines":
                notes.append(f"the block at line {block.number} matched line {edited.lines[0]} by: {edited.matcher}")
        return Rewritten(text, tuple(notes))


def parse_search_replace(text: str) -> list[Block]:
    """Blocks in order. One that names no file is for the file of the block before it."""
    lines = with_newlines(text).split("\n")
    blocks: list[Block] = []
    at = 0
    while at < len(lines):
        opened = SEARCH.fullmatch(lines[at])
        if opened is None:
            at += 1
            continue
        path = _path_above(lines, at) or (blocks[-1].path if blocks else "")
        if not path:
            raise ToolFailure(
                f"The block at line {at + 1} does not say which file it is for.",
                remedy="Put the path alone on the line above the block.",
            )
        width = len(opened[1])
        search, divider = _until(lines, at + 1, width, _DIVIDER, at, "=" * width)
        wanted, end = _until(lines, divider + 1, width, _REPLACE, at, ">" * width + " REPLACE")
        blocks.append(Block(path=path, search=search, replace=wanted, number=at + 1))
        at = end + 1
    if not blocks:
        raise ToolFailure("There is no SEARCH/REPLACE block in it.", remedy="A block begins with <<<<<<< SEARCH.")
    return blocks


def operations_of(blocks: Sequence[Block], existing: frozenset[str]) -> list[Operation]:
    """One operation per file; a block that searches for nothing makes the file where there is none."""
    by_path: dict[str, list[Block]] = {}
    for block in blocks:
        by_path.setdefault(block.path, []).append(block)
    operations: list[Operation] = []
    for path, some in by_path.items():
        if path not in existing and not some[0].search.strip():
            operations.append(Add(path=path, text=some[0].replace, only_new=True))
            some = some[1:]
        if some:
            operations.append(Update(path=path, rewrite=Blocks(tuple(some))))
    return operations


def _until(
    lines: Sequence[str], at: int, width: int, marker: re.Pattern[str], opened: int, expected: str
) -> tuple[str, int]:
    """The text up to the marker of the same width, and where that is."""
    for number in range(at, len(lines)):
        found = marker.fullmatch(lines[number])
        if found is not None and len(found[1]) == width:
            return "".join(f"{line}\n" for line in lines[at:number]), number
        if SEARCH.fullmatch(lines[number]) is not None:
            break
    raise ToolFailure(f"The block at line {opened + 1} has no `{expected}`; it may have been cut off.")


def _path_above(lines: Sequence[str], at: int) -> str:
    """The path on the nearest line above that is not a fence; a fence may carry it too."""
    for line in reversed(lines[max(0, at - _LOOK_BACK) : at]):
        fence = _FENCE.fullmatch(line)
        name = _bare(line if fence is None else fence[2])
        if name and _looks_like_path(name, in_fence=fence is not None):
            return name
        if fence is None and line.strip():
            return ""
    return ""


def _bare(line: str) -> str:
    return line.strip().strip("*`").rstrip(":").lstrip("#").strip().strip("*`")


def _looks_like_path(name: str, *, in_fence: bool) -> bool:
    if any(character.isspace() for character in name) or name.startswith((">", "<", "=")):
        return False
    return "." in name or "/" in name or (not in_fence and name[0].isalnum())
