"""What a call of any tool would do, as segments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from turnwright.schema.verdicts import Effect
from turnwright.session.permissions.paths import is_protected, is_secret
from turnwright.session.permissions.segments import Ground, Kind, Segment
from turnwright.session.permissions.shell import segments_of

WRITERS = frozenset({"write", "edit", "patch"})
FILES = frozenset({"read", "ls", "glob", "grep", "symbols"})
OURS = frozenset({"bash_output", "bash_kill", "todo", "ask_user", "skill", "task", "mark_task_complete"})
"""They touch nothing but the conversation, or what was permitted before."""
ARGUMENTS_SHOWN_MAX = 4_000
_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=str).encode

_PATCHED = re.compile(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |(?:---|\+\+\+) (?:[ab]/)?|(?:rename|copy) (?:from|to) )"
    r"(?P<path>[^\t\n]+)|^(?P<before>[^\n]{1,300})\n(?:```\w*\n)?<{5,9} SEARCH",
    re.MULTILINE,
)


def call_segments(
    tool: str, effect: Effect, arguments: Mapping[str, Any], ground: Ground, *, given: bool
) -> list[Segment]:
    """Never empty."""
    if given:
        kind: Kind = "reads" if effect in ("reads", "asks") else "writes"
        return [Segment(text=_told(arguments), kind=kind, why="the program that runs us brought this tool")]
    if tool == "bash":
        return segments_of(str(arguments.get("command", "")), ground)
    if tool in WRITERS:
        return [_written(path) for path in paths_of(tool, arguments)] or [Segment(text="", kind="writes")]
    if tool in FILES:
        return [_read(str(arguments.get("path", ".")))]
    if tool in OURS or effect in ("reads", "asks"):
        return [Segment(text=_told(arguments), kind="reads")]
    return [Segment(text=_told(arguments), kind="foreign")]


def paths_of(tool: str, arguments: Mapping[str, Any]) -> list[str]:
    """The files that a call would change, as it names them."""
    if tool != "patch":
        return [str(arguments.get("path", ""))]
    told = str(arguments.get("path", ""))
    return list(dict.fromkeys([*([told] if told else []), *_patched(str(arguments.get("text", "")))]))


def _patched(text: str) -> Iterator[str]:
    for found in _PATCHED.finditer(text):
        path = (found["path"] or found["before"] or "").strip().strip("`").strip('"')
        if path and path != "/dev/null":
            yield path


def _written(path: str) -> Segment:
    if is_protected(path):
        return Segment(text=path, kind="protected", why=f"{path} makes something run later, or decides what may")
    return Segment(text=path, kind="writes")


def _read(path: str) -> Segment:
    if is_secret(path):
        return Segment(text=path, kind="secret", why=f"{path} is where keys and passwords are kept")
    return Segment(text=path, kind="reads")


def _told(arguments: Mapping[str, Any]) -> str:
    return _encode(arguments)[:ARGUMENTS_SHOWN_MAX]
