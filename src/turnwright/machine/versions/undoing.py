"""Putting a workspace back. What the steps changed is taken back, last one first; what anybody else changed stays.

A path is only touched where it is now as the step left it. Otherwise somebody has changed it since, and taking the step
back would take that away too: it is named, and nothing at all is done unless it is asked for.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Mapping, Sequence

import msgspec

from turnwright.machine.beneath import OPEN_FOLDER, open_folder
from turnwright.machine.versions.objects import Objects
from turnwright.machine.versions.trees import EMPTY_FOLDER, Change, Digest, Folder, Leaf, bare, changes


class Stretch(msgspec.Struct, frozen=True):
    """The workspace before and after something that is to be taken back."""

    before: Digest
    after: Digest


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    to_be: Mapping[str, Leaf | None]
    """What each path shall be; None: not there."""
    was: Mapping[str, Leaf | None]
    in_the_way: tuple[str, ...] = ()
    """Changed since by somebody else."""
    not_kept: tuple[str, ...] = ()
    """Too large to have been saved: what it held is not known."""


class Lookup:
    """Single paths in a version, each folder read once."""

    def __init__(self, tree: Digest, objects: Objects) -> None:
        self._folders: dict[str, Folder] = {"": objects.folder(tree)}
        self._objects = objects

    def at(self, path: str) -> Leaf | None:
        found = self._entry(path)
        return bare(found) if found is not None else None

    def _entry(self, path: str) -> Leaf | None:
        folder, _, name = path.rpartition("/")
        return self._folder(folder).get(name)

    def _folder(self, path: str) -> Folder:
        if path not in self._folders:
            leaf = self._entry(path)
            is_folder = leaf is not None and leaf.kind == "folder"
            self._folders[path] = self._objects.folder(leaf.content[0]) if leaf and is_folder else EMPTY_FOLDER
        return self._folders[path]


def plan(now: Digest, stretches: Sequence[Stretch], objects: Objects, only: str | None = None) -> Plan:
    """`stretches` with the latest first. `only` one path, or what is below it."""
    look_up = Lookup(now, objects)
    current: dict[str, Leaf | None] = {}
    in_the_way: dict[str, None] = {}
    for stretch in stretches:
        for change in changes(stretch.before, stretch.after, objects.folder):
            if only is not None and change.path != only and not change.path.startswith(only + "/"):
                continue
            there = current[change.path] if change.path in current else look_up.at(change.path)
            if there not in (change.after, change.before):
                in_the_way[change.path] = None
            current[change.path] = change.before
    was = {path: look_up.at(path) for path in current}
    to_be = {path: leaf for path, leaf in current.items() if leaf != was[path]}
    lost = tuple(path for path, leaf in to_be.items() if leaf is not None and not leaf.kept)
    return Plan(
        to_be={path: leaf for path, leaf in to_be.items() if path not in lost},
        was={path: was[path] for path in to_be},
        in_the_way=tuple(in_the_way),
        not_kept=lost,
    )


def towards(now: Digest, target: Digest, objects: Objects) -> Plan:
    """Everything as it is in a version."""
    found: list[Change] = list(changes(now, target, objects.folder))
    lost = tuple(change.path for change in found if change.after is not None and not change.after.kept)
    return Plan(
        to_be={change.path: change.after for change in found if change.path not in lost},
        was={change.path: change.before for change in found},
        not_kept=lost,
    )


def carry_out(workspace: str, made: Plan, objects: Objects) -> None:
    """Removes first, deepest first; then folders; then files and links, each whole or not at all."""
    root = os.open(workspace, OPEN_FOLDER)
    try:
        for path in sorted(made.to_be, reverse=True):
            old, new = made.was.get(path), made.to_be[path]
            if old is not None and (new is None or new.kind != old.kind):
                _remove(root, path, old)
        for path in sorted(made.to_be):
            new = made.to_be[path]
            if new is not None and new.kind == "folder":
                _make_folder(root, path)
        for path in sorted(made.to_be):
            new = made.to_be[path]
            if new is not None and new.kind != "folder":
                _put(root, path, new, objects)
        # Last, and inmost first: a folder that may not be written to had to be filled before.
        for path in sorted(made.to_be, reverse=True):
            new = made.to_be[path]
            if new is not None and new.kind == "folder":
                _set_mode(root, path, new.mode)
    finally:
        os.close(root)


def _parent(root: int, path: str) -> tuple[int, str]:
    folder, _, name = path.rpartition("/")
    return open_folder(root, folder, []), name


def _remove(root: int, path: str, old: Leaf) -> None:
    parent, name = _parent(root, path)
    try:
        if old.kind == "folder":
            os.rmdir(name, dir_fd=parent)
        else:
            os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        pass
    except OSError as failed:
        if failed.errno != errno.ENOTEMPTY:  # it still holds what is never saved, or what somebody put there
            raise
    finally:
        os.close(parent)


def _make_folder(root: int, path: str) -> None:
    os.close(open_folder(root, path, []))


def _set_mode(root: int, path: str, mode: int) -> None:
    fd = open_folder(root, path)
    try:
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def _put(root: int, path: str, leaf: Leaf, objects: Objects) -> None:
    parent, name = _parent(root, path)
    temporary = f".{name[:200]}.{secrets.token_hex(6)}"
    try:
        if leaf.kind == "link":
            os.symlink(b"".join(objects.content(leaf)), os.fsencode(temporary), dir_fd=parent)
        else:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
            with os.fdopen(fd, "wb") as file:
                for piece in objects.content(leaf):
                    file.write(piece)
                file.flush()
                os.fchmod(file.fileno(), leaf.mode)
                os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        try:
            os.unlink(temporary, dir_fd=parent)
        except FileNotFoundError:
            pass
        raise
    finally:
        os.close(parent)
