"""What was found out about sandboxes, kept until the machine starts anew or anything that it depends on changes. Trying
takes as long as several commands, and every run would begin with it. It is kept where no command can write."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import sys
from pathlib import Path
from typing import TypeVar

import msgspec

BOOT = Path("/proc/sys/kernel/random/boot_id")
FILE = "tried.json"

Kept = TypeVar("Kept", bound=msgspec.Struct)


class _Remembered(msgspec.Struct, frozen=True):
    key: str
    found: msgspec.Raw


def key_of(bubblewrap: str | None) -> str:
    """This start of this kernel, this user, these programs."""
    depends = [BOOT.read_text(encoding="ascii"), platform.release(), str(os.geteuid()), sys.executable, str(bubblewrap)]
    for path in (bubblewrap, *sorted(map(str, Path(__file__).parent.glob("*.py")))):
        if path is not None:
            status = Path(path).stat()
            depends.append(f"{path} {status.st_mtime_ns} {status.st_size}")
    return hashlib.sha256("\n".join(depends).encode()).hexdigest()


def recall(folder: Path, key: str, kind: type[Kept]) -> Kept | None:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        kept = msgspec.json.decode((folder / FILE).read_bytes(), type=_Remembered)
        if kept.key == key:
            return msgspec.json.decode(kept.found, type=kind)
    return None


def remember(folder: Path, key: str, found: msgspec.Struct) -> None:
    """Whole or not at all; where it cannot be kept, the next one tries again."""
    with contextlib.suppress(OSError):
        beside = folder / f"{FILE}.{os.getpid()}"
        beside.write_bytes(msgspec.json.encode(_Remembered(key, msgspec.Raw(msgspec.json.encode(found)))))
        beside.replace(folder / FILE)
