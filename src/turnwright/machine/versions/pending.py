"""What an undo is about to do, on disk before it does anything: if it is killed, the next one does the rest."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from turnwright.machine.versions.objects import Move
from turnwright.machine.versions.undoing import Plan
from turnwright.schema.errors import InputError, MachineError


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """An undo or a redo, decided and not finished."""

    mark: str
    """In the names of its temporary files."""
    workspace: str
    plan: Plan
    move: Move
    """What is remembered of it once it is done; `reached` is not known yet."""
    back_to: int = 0
    """The last fact of the conversation that the fork shares with it."""
    redo: bool = False


class PendingFile:
    """One per workspace, beside the versions."""

    def __init__(self, folder: Path, workspace: str) -> None:
        self._path = folder / f"undo-{hashlib.sha256(os.fsencode(workspace)).hexdigest()[:24]}"
        self._workspace = workspace

    def exists(self) -> bool:
        return self._path.exists()

    def read(self) -> Pending | None:
        try:
            return msgspec.msgpack.decode(self._path.read_bytes(), type=Pending)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as bad:
            raise MachineError(
                f"{self._path} says what an undo that was interrupted had still to do, and is damaged: {bad}.",
                remedy="turnwright undo --forget leaves the files as they are.",
            ) from bad

    def write(self, pending: Pending) -> None:
        """Whole and on disk, or not at all."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self._path.with_name(self._path.name + ".new")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.msgpack.encode(pending))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else puts this workspace back meanwhile. The system lets go of it for whoever dies."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._path.with_name(self._path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"Another undo is putting {self._workspace} back just now.", remedy="Wait until it is done."
                ) from None
            yield
        finally:
            os.close(lock)
