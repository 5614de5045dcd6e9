"""Whether what came with a repository may do anything (X4). The user says yes to contents, never to a name: whatever
has changed since is a new question."""

from __future__ import annotations

import hashlib
from typing import Literal, TypeAlias

import msgspec

TrustKind: TypeAlias = Literal["config", "instructions", "skill", "mcp", "mcp-tool"]
"""A configuration file, a file of instructions, a skill, one MCP server of `.mcp.json`, or the text of a tool of a
server, wherever that was configured."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a repository brings."""

    kind: TrustKind
    name: str
    """Below the repository's root; of an MCP server its own name."""
    sha256: str

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.name}"


class Trusted(msgspec.Struct, frozen=True):
    """It may be used: these very bytes were agreed to."""


class Untrusted(msgspec.Struct, frozen=True, kw_only=True):
    """It is as if it were not there."""

    entry: Entry
    why: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.entry.name}: {self.why}. {self.remedy}"


TRUSTED = Trusted()


def entry_of(kind: TrustKind, name: str, content: bytes) -> Entry:
    return Entry(kind=kind, name=name, sha256=hashlib.sha256(content).hexdigest())


def canonical(value: object) -> bytes:
    """The bytes that stand for one member of a JSON file, however it is laid out there."""
    return msgspec.json.encode(value, order="sorted")
