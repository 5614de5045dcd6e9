"""A small JSON file that only its user may read, shared by all processes, and never seen half written."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from turnwright.schema.errors import ConfigError

Value = TypeVar("Value")


class OwnedFile(Generic[Value]):
    """A mapping by folder. What cannot be read is an error: it says what somebody agreed to."""

    def __init__(self, path: Path, kind: type[dict[str, Value]], holds: str, remedy: str) -> None:
        """`holds`: what it is, for messages."""
        self.path = path
        self._kind = kind
        self._holds = holds
        self._remedy = remedy

    def read(self) -> dict[str, Value]:
        try:
            raw = self.path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as bad:
            raise self._unusable(bad.strerror or "it cannot be read") from bad
        try:
            return msgspec.json.decode(raw, type=self._kind)
        except msgspec.DecodeError as bad:
            raise self._unusable("it is damaged") from bad

    @contextmanager
    def changing(self) -> Iterator[dict[str, Value]]:
        """Under a lock, over what others have written meanwhile; replaced whole."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                kept = self.read()
                yield kept
                self._replace(msgspec.json.format(msgspec.json.encode(kept)))
            finally:
                os.close(lock)
        except OSError as bad:
            raise ConfigError(
                f"{self._holds} cannot be written to {self.path}: {bad.strerror}.", remedy="Check its folder."
            ) from bad

    def _replace(self, data: bytes) -> None:
        draft = self.path.with_suffix(f".{os.getpid()}.tmp")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)

    def _unusable(self, why: str) -> ConfigError:
        return ConfigError(f"{self._holds}, {self.path}, cannot be used: {why}.", remedy=self._remedy)
