"""Putting a workspace back. What the steps changed is taken back, last one first; what anybody else changed stays.

A path is only touched where it is now as the step left it. Otherwise somebody has changed it since, and taking the step
back would take that away too: it is named, and nothing at all is done unless it is asked for.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from turnwright.machine.beneath import OPEN_FOLDER, open_folder, pin
from turnwright.machine.versions.objects import Objects
from turnwright.machine.versions.trees import EMPTY_FOLDER, Digest, Folder, Leaf, bare, changes, real

SYNCED_ALONE_MAX = 200
_OPEN_TO_OWNER = 0o700


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
    for_good: tuple[str, ...] = ()
    """Too large to have been saved as it is now: once taken back it cannot be done again."""


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

    def closed_folders_of(self, paths: Iterable[str]) -> dict[str, Leaf]:
        """The folders around them whose owner may not change what is in them."""
        around = {path[:at] for path in paths for at, letter in enumerate(path) if letter == "/"}
        found = {folder: self.at(folder) for folder in around}
        return {
            folder: leaf
            for folder, leaf in found.items()
            if leaf is not None and leaf.kind == "folder" and ~leaf.mode & _OPEN_TO_OWNER
        }


def plan(now: Digest, stretches: Sequence[Stretch], objects: Objects, only: Sequence[str] = ()) -> Plan:
    """`stretches` with the latest first. `only` these paths and what is below them; empty: all."""
    look_up = Lookup(now, objects)
    current: dict[str, Leaf | None] = {}
    in_the_way: dict[str, None] = {}
    for stretch in stretches:
        for change in changes(stretch.before, stretch.after, objects.folder):
            if only and not any(change.path == each or change.path.startswith(each + "/") for each in only):
                continue
            there = current[change.path] if change.path in current else look_up.at(change.path)
            if there not in (change.after, change.before):
                in_the_way[change.path] = None
            current[change.path] = change.before
    was = {path: look_up.at(path) for path in current}
    to_be = {path: leaf for path, leaf in current.items() if leaf != was[path]}
    lost = tuple(path for path, leaf in to_be.items() if leaf is not None and not leaf.kept)
    to_be = {path: leaf for path, leaf in to_be.items() if path not in lost}
    # They are opened for as long as it takes, and closed again with everything else.
    closed = {path: leaf for path, leaf in look_up.closed_folders_of(to_be).items() if path not in to_be}
    return Plan(
        to_be={**to_be, **closed},
        was={path: was[path] for path in to_be} | closed,
        in_the_way=tuple(in_the_way),
        not_kept=lost,
        for_good=tuple(path for path in to_be if (leaf := was[path]) is not None and not leaf.kept),
    )


def backwards(made: Plan) -> Plan:
    """As it was before; what was too large to be saved cannot come back."""
    kept = {path: leaf for path, leaf in made.was.items() if leaf is None or leaf.kept}
    return Plan(to_be=kept, was={path: made.to_be[path] for path in kept})


def changed_since(now: Digest, made: Plan, objects: Objects) -> tuple[str, ...]:
    """Where a plan that was broken off finds neither what it began with nor what it was to make."""
    look_up = Lookup(now, objects)
    return tuple(path for path in made.to_be if not _expected(look_up.at(path), made.was[path], made.to_be[path]))


def _expected(found: Leaf | None, was: Leaf | None, to_be: Leaf | None) -> bool:
    """On its way from one to the other a path may be gone, and a folder may have another mode."""
    if found is None or found in (was, to_be):
        return True
    return found.kind == "folder" and "folder" in (was and was.kind, to_be and to_be.kind)


def carry_out(workspace: str, made: Plan, objects: Objects, mark: str) -> None:
    """Removes first, deepest first; then folders; then files and links, each whole or not at all; modes of folders
    last. Broken off anywhere it can be done again, under the same `mark`, and ends the same."""
    root = os.open(workspace, OPEN_FOLDER)
    try:
        _open_folders(root, made)
        for path in sorted(made.to_be, reverse=True):
            old, new = made.was.get(path), made.to_be[path]
            if old is not None and (new is None or new.kind != old.kind):
                _remove(root, path, old)
        for path in sorted(made.to_be):
            new = made.to_be[path]
            if new is not None and new.kind == "folder":
                _make_folder(root, path)
        written = []
        for path in sorted(made.to_be):
            new = made.to_be[path]
            if new is not None and new.kind != "folder":
                _put(root, path, new, objects, f".{mark}.turnwright-undo")
                written.append(path)
        _settle(root, written)
        # Last, and inmost first: a folder that may not be written to had to be filled before.
        for path in sorted(made.to_be, reverse=True):
            new = made.to_be[path]
            if new is not None and new.kind == "folder":
                _set_mode(root, path, new.mode)
    finally:
        os.close(root)


def _open_folders(root: int, made: Plan) -> None:
    """Outermost first: what is in a closed one cannot even be looked at."""
    for path in sorted(made.was):
        old = made.was[path]
        if old is not None and old.kind == "folder" and ~old.mode & _OPEN_TO_OWNER:
            with suppress(FileNotFoundError, NotADirectoryError):
                parent, name = _parent(root, path)
                try:
                    _open_to_owner(parent, name, old.mode | _OPEN_TO_OWNER)
                finally:
                    os.close(parent)


def _open_to_owner(parent: int, name: str, mode: int) -> None:
    pinned = pin(parent, name)
    if pinned is None:
        os.chmod(name, mode, dir_fd=parent, follow_symlinks=False)
        return
    try:
        if stat.S_ISDIR(os.fstat(pinned).st_mode):
            Path(f"/proc/self/fd/{pinned}").chmod(mode)
    finally:
        os.close(pinned)


def _parent(root: int, path: str, made: list[str] | None = None) -> tuple[int, str]:
    folder, _, name = real(path).rpartition("/")
    return open_folder(root, folder, made), name


def _remove(root: int, path: str, old: Leaf) -> None:
    try:
        parent, name = _parent(root, path)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        is_folder = stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
        if is_folder != (old.kind == "folder"):
            return  # done before it was broken off
        if is_folder:
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
    os.close(open_folder(root, real(path), []))


def _set_mode(root: int, path: str, mode: int) -> None:
    fd = open_folder(root, real(path))
    try:
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def _put(root: int, path: str, leaf: Leaf, objects: Objects, temporary: str) -> None:
    """In place at once, whatever was there. What a process that was killed left half-written goes first."""
    parent, name = _parent(root, path, [])
    try:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent)
        if leaf.kind == "link":
            os.symlink(b"".join(objects.content(leaf)), os.fsencode(temporary), dir_fd=parent)
        else:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
            with os.fdopen(fd, "wb") as file:
                for piece in objects.content(leaf):
                    file.write(piece)
                file.flush()
                os.fchmod(file.fileno(), leaf.mode)
        os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent)
        raise
    finally:
        os.close(parent)


def _settle(root: int, written: Sequence[str]) -> None:
    """On disk before anybody forgets that this was being done. One by one where they are few: asking for the whole
    disk waits for everybody else's writing too."""
    if len(written) > SYNCED_ALONE_MAX:
        os.sync()
        return
    for path in written:
        parent, name = _parent(root, path)
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        except OSError:
            continue  # a link, or a file that its owner may not read
        finally:
            os.close(parent)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
