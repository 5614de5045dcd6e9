"""What a patch asks for, and what that comes to: operations on named files, planned against what the files are.

Planning is pure. It ends in a list of changes or in a `ToolFailure`, and nothing is touched before it has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Protocol, TypeAlias

import msgspec

from turnwright.schema.errors import ToolFailure
from turnwright.tools.text import Encoding


class TextFile(msgspec.Struct, frozen=True):
    """A file with text in it. `mode` is None where the default will do."""

    text: str
    encoding: Encoding = "utf-8"
    mode: int | None = None


class Missing(msgspec.Struct, frozen=True):
    """There is no such file."""


class Obstacle(msgspec.Struct, frozen=True):
    """Something that cannot be patched, and what it is: a folder, binary data, a link out of the workspace."""

    what: str
    removable: bool = False
    """A file all the same, so that a patch may delete or move it whole."""


State: TypeAlias = TextFile | Missing | Obstacle


class Rewritten(msgspec.Struct, frozen=True):
    text: str
    notes: tuple[str, ...] = ()
    """What had to be forgiven, for the report."""


class Rewrite(Protocol):
    """The changes within one file."""

    def apply(self, text: str, path: str) -> Rewritten: ...


class Add(msgspec.Struct, frozen=True, kw_only=True):
    """Make a file, or overwrite one unless `only_new`."""

    path: str
    text: str
    mode: int | None = None
    only_new: bool = False


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Remove a file; `rewrite` must leave nothing of it where the patch spells out what it removes."""

    path: str
    rewrite: Rewrite | None = None


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """Change a file, move it, or both."""

    path: str
    rewrite: Rewrite | None = None
    move_to: str | None = None
    mode: int | None = None
    keep_source: bool = False
    """A copy rather than a move."""


Operation: TypeAlias = Add | Delete | Update


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One file as it is to be; Missing removes it."""

    path: str
    after: TextFile | Missing
    before: State
    blind: bool = False
    """It replaces a file without having looked at what was in it."""


class Plan(msgspec.Struct, frozen=True):
    changes: tuple[Change, ...]
    report: tuple[str, ...]
    """A line for each operation, with what had to be forgiven."""


def paths_of(operations: Sequence[Operation]) -> list[str]:
    """Every path a patch touches, checked for shape; the order is that of the patch."""
    found: dict[str, None] = {}
    for operation in operations:
        found[relative(operation.path)] = None
        if isinstance(operation, Update) and operation.move_to is not None:
            found[relative(operation.move_to)] = None
    return list(found)


def relative(path: str) -> str:
    """A path of a patch is relative and stays beneath the folder it is applied to."""
    pure = PurePosixPath(path)
    if not path or pure.is_absolute() or ".." in pure.parts or "\0" in path or not pure.parts:
        raise ToolFailure(
            f"The patch names {path!r}, which is not a file beneath the folder.", remedy="Use a relative path."
        )
    return str(pure)


def plan(operations: Sequence[Operation], files: Mapping[str, State]) -> Plan:
    """Follow the operations on a picture of the files. `files` knows every path of `paths_of`."""
    if not operations:
        raise ToolFailure("The patch changes no files.")
    picture = Picture(files)
    report: list[str] = []
    for operation in operations:
        report += _follow(operation, picture)
    changes = tuple(
        Change(path=path, after=after, before=files[path], blind=path in picture.blind)
        for path, after in picture.items()
        if after != files[path] and not isinstance(after, Obstacle)
    )
    if not changes:
        raise ToolFailure("The patch changes nothing: the files already read like its result.")
    return Plan(changes, tuple(report))


class Picture(dict[str, State]):
    """The files as they would be so far; `blind` are those overwritten unseen."""

    def __init__(self, files: Mapping[str, State]) -> None:
        super().__init__(files)
        self.blind: set[str] = set()


def _follow(operation: Operation, picture: Picture) -> list[str]:
    match operation:
        case Add():
            return _add(operation, picture)
        case Delete():
            return _delete(operation, picture)
        case Update():
            return _update(operation, picture)


def _add(operation: Add, picture: Picture) -> list[str]:
    path = relative(operation.path)
    _room_for(path, picture)
    match picture[path]:
        case Obstacle(what=what):
            raise ToolFailure(f"{path}: cannot be added, since it is {what}.")
        case TextFile() as there if operation.only_new and there.text:
            raise ToolFailure(f"{path}: cannot be added, since it exists.", remedy="Change it, or delete it first.")
        case TextFile(mode=mode, encoding=encoding):
            picture[path] = TextFile(operation.text, encoding, operation.mode or mode)
            picture.blind.add(path)
            return [f"overwrote {path}"]
        case Missing():
            picture[path] = TextFile(operation.text, "utf-8", operation.mode)
            return [f"created {path}"]


def _delete(operation: Delete, picture: Picture) -> list[str]:
    path = relative(operation.path)
    match picture[path]:
        case Missing():
            raise ToolFailure(f"{path}: cannot be deleted, since it does not exist.")
        case Obstacle(what=what, removable=removable):
            if not removable or operation.rewrite is not None:
                raise ToolFailure(f"{path}: cannot be deleted, since it is {what}.")
        case TextFile(text=text):
            if operation.rewrite is not None and operation.rewrite.apply(text, path).text:
                raise ToolFailure(f"{path}: cannot be deleted, since it has more in it than the patch removes.")
    picture[path] = Missing()
    return [f"deleted {path}"]


def _update(operation: Update, picture: Picture) -> list[str]:
    path = relative(operation.path)
    match picture[path]:
        case Missing():
            raise ToolFailure(
                f"{path}: cannot be updated, since it does not exist.", remedy="Check the path, or add the file."
            )
        case Obstacle(what=what):
            raise ToolFailure(f"{path}: cannot be updated, since it is {what}.")
        case TextFile() as file:
            pass
    done = Rewritten(file.text) if operation.rewrite is None else operation.rewrite.apply(file.text, path)
    changed = msgspec.structs.replace(file, text=done.text, mode=operation.mode or file.mode)
    if operation.move_to is None or relative(operation.move_to) == path:
        picture[path] = changed
        return [f"updated {path}", *(f"  {note}" for note in done.notes)]
    target = relative(operation.move_to)
    _room_for(target, picture)
    if isinstance(there := picture[target], Obstacle):
        raise ToolFailure(f"{path}: cannot be moved to {target}, which is {there.what}.")
    if isinstance(there, TextFile):
        picture.blind.add(target)
    if not operation.keep_source:
        picture[path] = Missing()
    picture[target] = changed
    verb = "copied" if operation.keep_source else "moved"
    return [f"{verb} {path} to {target}", *(f"  {note}" for note in done.notes)]


def _room_for(path: str, picture: Mapping[str, State]) -> None:
    """A file made or kept by the same patch cannot be the folder of another."""
    for parent in PurePosixPath(path).parents:
        if isinstance(picture.get(str(parent)), TextFile):
            raise ToolFailure(f"{path}: cannot be made, since {parent} is a file.")
