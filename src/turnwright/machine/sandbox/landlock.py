"""Landlock: which files may be opened and how, by what stands above them. The rules are made here; `inside.py` puts
them in force."""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from collections.abc import Iterable, Sequence

import msgspec

_CREATE_RULESET = 444
_ASK_VERSION = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2
_TCP_BIND, _TCP_CONNECT = 1, 2

VERSION_MIN = 2
"""The first refuses to move a file from one folder to another, wherever they are."""


class Landlock(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel here knows of."""

    version: int

    @property
    def all_rights(self) -> int:
        bits = {1: 13, 2: 14, 3: 15, 4: 15}.get(self.version, 16)
        return (1 << bits) - 1

    def attributes(self, *, tcp: bool = False) -> bytes:
        """The ruleset, as the kernel wants it: all access to files is ruled; and with `tcp` all connections refused."""
        fields = [self.all_rights]
        if self.version >= 4:
            fields.append(_TCP_BIND | _TCP_CONNECT if tcp else 0)
        if self.version >= 6:
            fields.append(_SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS)
        return struct.pack(f"={len(fields)}Q", *fields)

    def rules(
        self, readable: Iterable[str], writable: Iterable[str], devices: Sequence[str]
    ) -> list[tuple[bytes, int]]:
        using = self.all_rights & (READ | WRITE_FILE | TRUNCATE | IOCTL_DEV)
        return [
            *((path.encode(errors="surrogateescape"), READ) for path in readable),
            *((path.encode(errors="surrogateescape"), self.all_rights) for path in writable),
            *((path.encode(errors="surrogateescape"), using) for path in devices),
        ]


@functools.cache
def landlock_here() -> Landlock | None:
    """None where the kernel has none, or one that is too old."""
    if sys.platform != "linux":
        return None
    version = ctypes.CDLL(None).syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), _ASK_VERSION)
    return Landlock(version=version) if version >= VERSION_MIN else None
