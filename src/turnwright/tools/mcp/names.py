"""What a server's tool is called here: valid for every provider, and nobody else's name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container

PREFIX = "mcp__"
NAME_MAX = 64
_HASH_CHARS = 8


def tool_name(server: str, tool: str, taken: Container[str] = ()) -> str:
    """`mcp__server__tool`. Where letters had to go, or the name is taken, a hash of the true names tells it apart; it
    depends on nothing else, so that a tool keeps its name from run to run."""
    wanted = f"{PREFIX}{_plain(server)}__{_plain(tool)}"
    same = wanted == f"{PREFIX}{server}__{tool}"
    if same and len(wanted) <= NAME_MAX and wanted not in taken:
        return wanted
    told = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    return f"{wanted[: NAME_MAX - 1 - _HASH_CHARS]}_{told}"


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)
