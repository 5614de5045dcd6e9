"""The health of routes on disk, shared by all processes of a user: it outlives them (P13)."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import msgspec

from turnwright.providers.health import HEALTHY, Health, Way


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    way: Way
    health: Health


class HealthFile:
    """`providers.router.HealthBook`. Read when a route is chosen, written when its health changes, which is rare.

    It is advice, not truth: where it cannot be read or written, routes count as healthy and the run goes on.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: dict[Way, Health] = {}
        self._stamp = (0, 0)

    def of(self, way: Way) -> Health:
        self._refresh()
        return self._kept.get(way, HEALTHY)

    def put(self, way: Way, health: Health) -> None:
        """Under a lock, over what others have written meanwhile; replaced whole, so that nobody reads half of it."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._path.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._refresh()
                self._kept[way] = health
                entries = [
                    _Entry(way=each, health=kept) for each, kept in sorted(self._kept.items()) if kept != HEALTHY
                ]
                draft = self._path.with_suffix(f".{os.getpid()}.tmp")
                draft.write_bytes(msgspec.json.encode(entries))
                draft.replace(self._path)
        except OSError:
            self._kept[way] = health

    def all(self) -> dict[Way, Health]:
        self._refresh()
        return dict(self._kept)

    def _refresh(self) -> None:
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp == self._stamp:
                return
            entries = msgspec.json.decode(self._path.read_bytes(), type=list[_Entry])
        except (OSError, msgspec.DecodeError):
            return
        self._stamp = stamp
        self._kept = {entry.way: entry.health for entry in entries}
