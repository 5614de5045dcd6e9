"""Reading a workspace into a version. Only what changed since the last time is opened; everything else is looked at.

Folders are walked by descriptor and links are never followed, so that a command that swaps one for a link while we look
cannot make us read outside of the workspace.
"""

from __future__ import annotations

import os
import re
import stat
from fnmatch import translate

import msgspec

from turnwright.machine.versions.objects import Objects
from turnwright.machine.versions.trees import Digest, Folder, Leaf, digest_of, real, spelled
from turnwright.schema.errors import MachineError

PIECE_BYTES = 4 * 1024 * 1024
SETTLED_NS = 100_000_000
"""A file touched within so short a time may change again without a new time: it is read again next time."""

SIGNS = 2
"""What a sign is made of: those of another make are not compared."""

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

Sign = tuple[int, int, int]
"""Time of the inode's last change, size, inode: where they are the same, so are content and mode. Nobody can set that
time back; asking for no more is what makes looking at fifty thousand files affordable."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    ignore: tuple[str, ...] = ()
    """Names that are left out wherever they are, or patterns for them."""
    file_bytes_max: int = 100 * 1024 * 1024


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    tree: Digest
    files: int
    read: int
    """Files that had to be opened."""
    too_large: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


class Seen(msgspec.Struct, array_like=True):
    """A folder as it was last looked at."""

    digest: Digest
    signs: dict[str, Sign | None]
    """None: to be read again."""
    leaves: Folder


_NEVER = Seen(b"", {}, {})


class _Look(msgspec.Struct):
    """What one save comes across."""

    now_ns: int
    files: int = 0
    read: int = 0
    changed: set[str] = set()
    alive: set[str] = set()
    too_large: list[str] = []
    unreadable: list[str] = []


class Scanner:
    """One workspace. Remembers what it saw, also across processes."""

    def __init__(self, workspace: str, objects: Objects, rules: Rules) -> None:
        self._workspace = workspace
        self._objects = objects
        self._rules = rules
        self._names = frozenset(name for name in rules.ignore if not any(sign in name for sign in "*?["))
        patterns = [name for name in rules.ignore if name not in self._names]
        self._ignored = re.compile("|".join(map(translate, patterns))).match if patterns else None
        self._key = f"{workspace}\0{' '.join(sorted(rules.ignore))}\0{SIGNS}"
        """With other rules everything is looked at anew."""
        self._seen: dict[str, Seen] | None = None
        self._given_up = False

    def give_up(self) -> None:
        """End a save that runs on another thread, at its next folder."""
        self._given_up = True

    def save(self, now_ns: int) -> Saved:
        """Blocking, and not cheap the first time. OSError where the workspace itself cannot be read."""
        with self._objects.saving():
            seen, look = self._known(), _Look(now_ns)
            self._seen = None  # until all of this is written down
            root = os.open(self._workspace, _OPEN_FOLDER)
            try:
                tree = self._folder(root, "", seen, look)
            finally:
                os.close(root)
            forgotten = seen.keys() - look.alive
            for name in forgotten:
                del seen[name]
            with self._objects.writing():
                rows = [(name, msgspec.msgpack.encode(seen[name])) for name in look.changed]
                self._objects.remember(self._key, rows, forgotten)
                self._objects.keep(self._workspace, tree, now_ns // 1_000_000)
            self._seen = seen
        return Saved(
            tree=tree,
            files=look.files,
            read=look.read,
            too_large=tuple(look.too_large),
            unreadable=tuple(look.unreadable),
        )

    def _known(self) -> dict[str, Seen]:
        if self._seen is None:
            rows = list(self._objects.known(self._key))
            return {name: msgspec.msgpack.decode(row, type=Seen) for name, row in rows}
        return self._seen

    def _folder(self, fd: int, path: str, seen: dict[str, Seen], look: _Look) -> Digest:
        before = seen.get(path) or _NEVER
        signs, leaves = before.signs, before.leaves
        same: list[str] = []
        fresh: dict[str, tuple[Sign | None, Leaf]] = {}
        folders: list[str] = []
        look.alive.add(path)
        if self._given_up:
            raise MachineError(f"Saving {self._workspace} was given up.")
        names, ignored = self._names, self._ignored
        with os.scandir(fd) as entries:
            for entry in entries:
                name = entry.name
                if name in names or (ignored is not None and ignored(name)):
                    continue
                if not name.isascii():
                    name = spelled(name)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # gone since the folder was read
                sign = (status.st_ctime_ns, status.st_size, status.st_ino)
                if signs.get(name) == sign:
                    same.append(name)
                elif leaf := self._leaf(fd, path + name, status, leaves.get(name), look):
                    settled = status.st_ctime_ns < look.now_ns - SETTLED_NS
                    fresh[name] = (sign if settled else None, leaf)
        look.files += len(same) + len(fresh)
        for name in folders:
            known = leaves.get(name)
            below = self._below(fd, path + name, known, seen, look)
            if below is not None and below == known:
                same.append(name)
            elif below is not None:
                fresh[name] = (None, below)
        if before is not _NEVER and not fresh and len(same) == len(leaves):
            return before.digest
        kept = {name: leaves[name] for name in same} | {name: leaf for name, (_, leaf) in fresh.items()}
        ordered = dict(sorted(kept.items()))
        told = {name: signs[name] for name in same if name in signs} | {name: sign for name, (sign, _) in fresh.items()}
        seen[path] = Seen(self._objects.put_folder(ordered), told, ordered)
        look.changed.add(path)
        return seen[path].digest

    def _below(self, fd: int, path: str, known: Leaf | None, seen: dict[str, Seen], look: _Look) -> Leaf | None:
        """None where it is gone by now, or became something else while we looked; where it cannot be read, what was
        last known of it, under the mode that it has now."""
        name = _name(path)
        try:
            below = os.open(name, _OPEN_FOLDER, dir_fd=fd)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            look.unreadable.append(path)
            look.alive.update(each for each in seen if each.startswith(path + "/"))
            return self._closed(fd, name, known)
        try:
            mode = stat.S_IMODE(os.fstat(below).st_mode)
            return Leaf("folder", mode, 0, (self._folder(below, path + "/", seen, look),))
        finally:
            os.close(below)

    def _closed(self, fd: int, name: str, known: Leaf | None) -> Leaf | None:
        """A folder or file that may not be opened: its mode can be seen all the same, and be put back."""
        try:
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if known is None or known.kind == "link" or (known.kind == "file" and known.size != status.st_size):
            return None
        return msgspec.structs.replace(known, mode=stat.S_IMODE(status.st_mode))

    def _leaf(self, fd: int, path: str, status: os.stat_result, known: Leaf | None, look: _Look) -> Leaf | None:
        """None for what is gone, and for what has no content: a pipe, a socket, a device."""
        try:
            if stat.S_ISLNK(status.st_mode):
                target = os.fsencode(os.readlink(_name(path), dir_fd=fd))
                return Leaf("link", 0, len(target), (self._objects.put(target),))
            return self._file(fd, path, status, look) if stat.S_ISREG(status.st_mode) else None
        except FileNotFoundError:
            return None
        except OSError:
            look.unreadable.append(path)
            return self._closed(fd, _name(path), known)

    def _file(self, fd: int, path: str, status: os.stat_result, look: _Look) -> Leaf:
        look.read += 1
        mode = stat.S_IMODE(status.st_mode)
        if status.st_size > self._rules.file_bytes_max:
            look.too_large.append(path)
            told = f"{status.st_size} {status.st_mtime_ns} {status.st_ino}".encode()
            return Leaf("file", mode, status.st_size, (digest_of(told),), False)
        file = os.open(_name(path), _OPEN_FILE, dir_fd=fd)
        try:
            pieces, size = [], 0
            while data := _piece(file):
                size += len(data)
                pieces.append(self._objects.put(data))
        finally:
            os.close(file)
        return Leaf("file", mode, size, tuple(pieces))


def _name(path: str) -> str:
    return real(path.rpartition("/")[2])


def _piece(file: int) -> bytes:
    data = os.read(file, PIECE_BYTES)
    while data and len(data) < PIECE_BYTES and (more := os.read(file, PIECE_BYTES - len(data))):
        data += more
    return data
