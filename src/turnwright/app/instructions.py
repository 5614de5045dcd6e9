"""Instruction files: what the user and the project want an agent to know (C1). The user's own AGENTS.md, then one per
folder from the repository's root down to the workspace; where a folder has no AGENTS.md, its CLAUDE.md.

What the project says counts only where the user has trusted it (X4). Its files are opened beneath its root: a link that
leads out of the project would send the model, and with it a provider, whatever somebody else's repository points at.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from turnwright.config.folders import project_root
from turnwright.config.trust import Trust
from turnwright.machine.beneath import OPEN_FOLDER
from turnwright.machine.files import Files, Folder, Forbidden
from turnwright.machine.port import OutsideWorkspace
from turnwright.schema.trust import Untrusted

NAMES = ("AGENTS.md", "CLAUDE.md")
"""The first that a folder has, and that says something, is used."""

HEADING = """What follows was written by the user and by the project, not by Turnwright. Where two of them differ, the \
later one holds: it is nearer to the workspace. What the user says in the conversation goes before all of them."""


class Instructions(msgspec.Struct, frozen=True, kw_only=True):
    text: str = ""
    skipped: tuple[str, ...] = ()
    """What was there and could not be used, or not whole, each with its reason."""
    untrusted: tuple[Untrusted, ...] = ()


class _Place(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that may hold an instruction file."""

    root: Path
    """Nothing outside of it is read."""
    folder: str
    """Relative to the root."""
    shown: str
    """Before a file's name, for the model."""
    trust: Trust | None
    """None for the user's own."""


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    text: str


Skip: TypeAlias = Callable[[str | Untrusted], object]


def instructions_for(
    workspace: Path | None, user_folder: Path, trust: Trust, *, max_bytes: int, forbidden: Forbidden = frozenset
) -> Instructions:
    """All of them together are at most `max_bytes`: the nearest are kept whole for as long as there is room. Without a
    workspace that is on this computer, the user's own alone."""
    if max_bytes == 0:
        return Instructions()
    found: list[_Found] = []
    skipped: list[str | Untrusted] = []
    for place in _places(workspace and workspace.resolve(), user_folder, trust):
        found += _read(place, forbidden, skipped.append)
    fitting = _fitted(found, max_bytes, skipped.append)
    return Instructions(
        text="\n\n".join([HEADING, *map(_marked, fitting)]) if fitting else "",
        skipped=tuple(one for one in skipped if isinstance(one, str)),
        untrusted=tuple(one for one in skipped if isinstance(one, Untrusted)),
    )


def _places(workspace: Path | None, user_folder: Path, trust: Trust) -> Iterator[_Place]:
    """Farthest first: the user's, the repository's root, and so on down to the workspace."""
    yield _Place(root=user_folder, folder=".", shown="the user's ", trust=None)
    if workspace is None:
        return
    root = project_root(workspace)
    steps = workspace.relative_to(root).parts
    for depth in range(len(steps) + 1):
        folder = "/".join(steps[:depth])
        yield _Place(root=root, folder=folder or ".", shown=f"{folder}/" if folder else "", trust=trust)


def _read(place: _Place, forbidden: Forbidden, skip: Skip) -> Iterator[_Found]:
    """The folder's file, if it has one."""
    try:
        root_fd = os.open(place.root, OPEN_FOLDER)
    except OSError:
        return  # the user need not have a folder for settings
    try:
        files = Files((Folder(fd=root_fd, names=(str(place.root),), writable=False),), forbidden)
        for name in NAMES:
            try:
                data = files.read(f"{place.folder}/{name}", 0, _READ_MAX).data
            except FileNotFoundError:
                continue
            except OutsideWorkspace:
                skip(f"{place.shown}{name}: the link leads out of the project")
                continue
            except OSError as closed:
                skip(f"{place.shown}{name}: {closed.strerror}")
                continue
            if b"\0" in data:
                skip(f"{place.shown}{name}: not a text")
                continue
            if place.trust is not None:
                path = place.root / place.folder / name
                judged = place.trust.decide("instructions", place.trust.name_of(path), data)
                if isinstance(judged, Untrusted):
                    skip(judged)
                    return
            if text := data.decode("utf-8-sig", "replace").strip():
                yield _Found(name=f"{place.shown}{name}", text=text)
                return
    finally:
        os.close(root_fd)


_READ_MAX = 1024 * 1024
"""No more of a file is looked at, however large it is."""


class NestedInstructions:
    """Instruction files of the folders below the workspace: each is shown with the first result of a call that touches
    its folder (C1). It stands in the result, so what was sent before stays as it was."""

    def __init__(self, workspace: Path, trust: Trust, *, max_bytes: int, forbidden: Forbidden = frozenset) -> None:
        self._workspace = workspace.resolve()
        self._trust = trust
        self._max_bytes = self._left = max_bytes
        self._forbidden = forbidden
        self._seen: set[str] = set()
        self._done: set[str] = set()
        """Paths all of whose folders were seen: most calls come back to one."""

    def touching(self, path: str) -> str:
        """What is to be shown with what was found at this path; empty where all of it was."""
        if path in self._done:
            return ""
        self._done.add(path)
        texts: list[str] = []
        for folder in self._folders(path):
            self._seen.add(folder)
            place = _Place(root=self._workspace, folder=folder, shown=f"{folder}/", trust=self._trust)
            skipped: list[str | Untrusted] = []
            for found in _read(place, self._forbidden, skipped.append):
                if len(found.text.encode()) <= self._left:
                    self._left -= len(found.text.encode())
                    texts.append(_marked(found))
            texts += [f"[Not shown: {one}]" for one in skipped if isinstance(one, Untrusted)]
        return "\n\n".join(texts)

    def forget(self) -> None:
        """The model is no longer shown what it was: the next touch shows it again."""
        self._seen.clear()
        self._done.clear()
        self._left = self._max_bytes

    def _folders(self, path: str) -> list[str]:
        """From the workspace down to the path itself, which may be a folder, those that were never touched."""
        whole = os.path.normpath(self._workspace / path)
        if self._max_bytes == 0 or not whole.startswith(f"{self._workspace}{os.sep}"):
            return []
        parts = Path(whole).relative_to(self._workspace).parts
        folders = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        return [folder for folder in folders if folder not in self._seen]


def _fitted(found: Sequence[_Found], max_bytes: int, skip: Skip) -> list[_Found]:
    """The nearest first, since it holds where two differ; what does not fit is cut at the end of a line."""
    left, kept = max_bytes, list[_Found]()
    for each in reversed(found):
        data = each.text.encode()
        if len(data) <= left:
            kept.append(each)
            left -= len(data)
            continue
        whole_lines = data[:left].rpartition(b"\n")[0].decode()
        missing = len(data) - len(whole_lines.encode())
        skip(f"{each.name}: {missing} of {len(data)} bytes are over the limit of {max_bytes} bytes for all")
        if whole_lines:
            kept.append(_Found(name=each.name, text=f"{whole_lines}\n[cut here: {missing} more bytes in the file]"))
        left = 0
    return kept[::-1]


def _marked(found: _Found) -> str:
    """A file cannot end its own mark and go on in somebody else's name."""
    text = found.text.replace("</instructions", "< /instructions")
    return f'<instructions file="{found.name}">\n{text}\n</instructions>'
