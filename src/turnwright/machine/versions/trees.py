"""What a version holds. A folder is a list of names, hashed; a version is the hash of its outermost folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

Digest: TypeAlias = bytes

LeafKind: TypeAlias = Literal["file", "link", "folder"]


class Leaf(msgspec.Struct, frozen=True, array_like=True):
    """One name in a folder."""

    kind: LeafKind
    mode: int
    """Permission bits."""
    size: int
    content: tuple[Digest, ...]
    """The pieces of a file, the target of a link, the list of a folder."""
    kept: bool = True
    """False for a file over the bound: that it changed is seen, what it held is not known."""


Folder: TypeAlias = dict[str, Leaf]
"""By name, in the order of names."""

EMPTY_FOLDER: Folder = {}


def encode_folder(folder: Folder) -> bytes:
    return msgspec.msgpack.encode(folder)


def decode_folder(data: bytes) -> Folder:
    return msgspec.msgpack.decode(data, type=Folder)


def spelled(name: str) -> str:
    """A name as it is stored. One that is no UTF-8 is spelled in hex, behind a sign that no name can hold."""
    if name.isascii():
        return name
    raw = os.fsencode(name)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return f"\0{raw.hex()}"


def real(path: str) -> str:
    """The name or path that the system knows."""
    if "\0" not in path:
        return path
    return "/".join(os.fsdecode(bytes.fromhex(part[1:])) if part[:1] == "\0" else part for part in path.split("/"))


def shown(path: str) -> str:
    """For people and programs: text, whatever the name is made of."""
    return path if "\0" not in path else os.fsencode(real(path)).decode(errors="backslashreplace")


def digest_of(data: bytes) -> Digest:
    return hashlib.sha256(data).digest()


class Change(msgspec.Struct, frozen=True):
    """Of one path between two versions. A folder is named only where it comes, goes or changes its own mode."""

    path: str
    before: Leaf | None
    after: Leaf | None


def changes(before: Digest, after: Digest, folder_of: Callable[[Digest], Folder], under: str = "") -> Iterator[Change]:
    """Every path that differs. Folders that are the same are not looked into."""
    if before != after:
        yield from _between(folder_of(before), folder_of(after), folder_of, under)


def _between(
    before: Mapping[str, Leaf], after: Mapping[str, Leaf], folder_of: Callable[[Digest], Folder], under: str
) -> Iterator[Change]:
    for name in sorted({*before, *after}):
        old, new, path = before.get(name), after.get(name), under + name
        if old == new:
            continue
        old_folder = folder_of(old.content[0]) if old is not None and old.kind == "folder" else None
        new_folder = folder_of(new.content[0]) if new is not None and new.kind == "folder" else None
        if old_folder is None or new_folder is None or not _alike(old, new):
            yield Change(path, old and bare(old), new and bare(new))
        if old_folder is not None or new_folder is not None:
            yield from _between(old_folder or EMPTY_FOLDER, new_folder or EMPTY_FOLDER, folder_of, path + "/")


def _alike(old: Leaf | None, new: Leaf | None) -> bool:
    return old is not None and new is not None and old.mode == new.mode


def bare(leaf: Leaf) -> Leaf:
    """A folder by itself, whatever is in it: its content has changes of its own."""
    return Leaf("folder", leaf.mode, 0, ()) if leaf.kind == "folder" else leaf
