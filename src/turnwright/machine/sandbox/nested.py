"""Repositories inside the workspace besides its own: their hooks and configuration are guarded too.

Looked for in all folders, and again in those that have changed since; bounded, since a workspace may be anything.
"""

from __future__ import annotations

import os
from collections import deque

SKIPPED = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".mypy_cache", ".ruff_cache"})
FOLDERS_MAX = 20_000
"""Of one workspace. What lies beyond them is not looked at."""


class Nested:
    """Remembers what it saw: a folder whose time is the same has the same names in it."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._seen: dict[str, tuple[int, tuple[str, ...], bool]] = {}

    def repositories(self) -> tuple[str, ...]:
        """Folders below the root that hold a `.git`, in the order of their names. Blocks."""
        seen: dict[str, tuple[int, tuple[str, ...], bool]] = {}
        waiting = deque([self._root])
        while waiting and len(seen) < FOLDERS_MAX:
            folder = waiting.popleft()
            looked = self._look(folder)
            if looked is not None:
                seen[folder] = looked
                waiting.extend(f"{folder}/{name}" for name in looked[1])
        self._seen = seen
        return tuple(sorted(folder for folder, (_, _, holds) in seen.items() if holds and folder != self._root))

    def _look(self, folder: str) -> tuple[int, tuple[str, ...], bool] | None:
        try:
            mtime_ns = os.lstat(folder).st_mtime_ns
            kept = self._seen.get(folder)
            if kept is not None and kept[0] == mtime_ns:
                return kept
            with os.scandir(folder) as entries:
                names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        except OSError:
            return None  # gone, or not ours to read: then no command of ours reads it either
        folders = tuple(name for name, is_folder in names.items() if is_folder and name not in SKIPPED)
        return mtime_ns, folders, ".git" in names
