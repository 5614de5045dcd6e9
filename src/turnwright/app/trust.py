"""What a folder brings that needs the user's trust before it does anything (X4), and what each of it would do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from turnwright.app.instructions import NAMES
from turnwright.app.skills import FILE as SKILL_FILE
from turnwright.app.skills import FILE_BYTES_MAX as SKILL_BYTES_MAX
from turnwright.app.skills import FOLDERS as SKILL_FOLDERS
from turnwright.config.folders import Folders
from turnwright.config.load import project_config
from turnwright.config.trust import Trust
from turnwright.config.yaml_file import FILE_BYTES_MAX, said_in
from turnwright.schema.errors import ConfigError
from turnwright.schema.facts import Note
from turnwright.schema.trust import Entry, TrustKind, Untrusted, canonical, entry_of

MCP_FILE = ".mcp.json"
FOLDERS_MAX = 20_000
"""No more of them are looked into for instructions of their own."""
SHOWN_MAX = 12


class Brought(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a folder brings."""

    entry: Entry
    does: tuple[str, ...]
    """What it would do, line by line, for whoever decides."""


def not_trusted(untrusted: Untrusted) -> Note:
    entry = untrusted.entry
    return Note(
        code="untrusted",
        text=f"not used: {untrusted}",
        data={"kind": entry.kind, "name": entry.name, "sha256": entry.sha256},
    )


def brought_by(workspace: Path, trust: Trust, folders: Folders, *, nested: bool) -> list[Brought]:
    """`nested`: with the instructions of all folders below, which only count once something there is touched."""
    workspace = workspace.resolve()
    found = [*_configuration(workspace, trust, folders), *_servers(workspace, trust.folder)]
    for folder in _down_to(workspace, trust.folder):
        found += _instructions(folder, trust)
    if nested:
        for folder in _below(workspace):
            found += _instructions(folder, trust)
    return [*found, *_skills(workspace, trust)]


def _configuration(workspace: Path, trust: Trust, folders: Folders) -> Iterator[Brought]:
    path = project_config(workspace, folders)
    raw = _bytes(path) if path else None
    if path is None or raw is None:
        return
    try:
        said = said_in(raw, path, "project")
    except ConfigError as bad:
        does = [str(bad)]
    else:
        does = [f"sets {'.'.join(one.path)} to {msgspec.json.encode(one.value).decode()}" for one in said]
    yield _brought("config", trust.name_of(path.resolve()), raw, does)


def _servers(workspace: Path, root: Path) -> Iterator[Brought]:
    for name, server in servers_of_project(workspace, root).items():
        words = server if isinstance(server, dict) else {}
        started = [words.get("command"), *(words.get("args") or [])] if "command" in words else [words.get("url")]
        does = [f"starts the MCP server: {' '.join(map(str, started))}"]
        if isinstance(words.get("env"), dict):
            does.append(f"with the variables: {', '.join(map(str, words['env']))}")
        if isinstance(words.get("headers"), dict):
            does.append(f"with the headers: {', '.join(f'{key}: {said}' for key, said in words['headers'].items())}")
        yield _brought("mcp", name, canonical(server), does)


def servers_of_project(workspace: Path, root: Path) -> dict[str, Any]:
    """The workspace's own file, else that of the repository's root."""
    return servers_in(_bytes(workspace / MCP_FILE) or _bytes(root / MCP_FILE) or b"")


def servers_in(raw: bytes) -> dict[str, Any]:
    """The members of `mcpServers`, as they stand in the file; none where it is no such file."""
    try:
        file = msgspec.json.decode(raw) if raw.strip() else None
    except msgspec.DecodeError:
        return {}
    servers = file.get("mcpServers") if isinstance(file, dict) else None
    return servers if isinstance(servers, dict) else {}


def _instructions(folder: Path, trust: Trust) -> Iterator[Brought]:
    """The folder's file: the first that says something."""
    for name in NAMES:
        raw = _bytes(folder / name)
        if raw is not None and raw.strip() and b"\0" not in raw:
            text = raw.decode("utf-8-sig", "replace")
            does = [f"tells the model, in {len(raw):,} bytes: {text.strip().splitlines()[0]}"]
            yield _brought("instructions", trust.name_of(folder / name), raw, does)
            return


def _skills(workspace: Path, trust: Trust) -> Iterator[Brought]:
    for place in SKILL_FOLDERS:
        folder = workspace / place
        for each in sorted(folder.iterdir()) if folder.is_dir() else ():
            if (raw := _bytes(each / SKILL_FILE, SKILL_BYTES_MAX)) is not None:
                does = ["is offered to the model as a skill"]
                yield _brought("skill", trust.name_of(each / SKILL_FILE), raw, does)


def _brought(kind: TrustKind, name: str, content: bytes, does: list[str]) -> Brought:
    more = [f"… and {len(does) - SHOWN_MAX} more"] if len(does) > SHOWN_MAX else []
    return Brought(entry=entry_of(kind, name, content), does=(*does[:SHOWN_MAX], *more))


def _down_to(workspace: Path, root: Path) -> Iterator[Path]:
    parts = workspace.relative_to(root).parts
    for depth in range(len(parts) + 1):
        yield root.joinpath(*parts[:depth])


def _below(workspace: Path) -> Iterator[Path]:
    for place, folders, _ in islice(os.walk(workspace), FOLDERS_MAX):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        if place != str(workspace):
            yield Path(place)


def _bytes(path: Path, bytes_max: int = FILE_BYTES_MAX) -> bytes | None:
    """As it is read when it is used; None where there is nothing that would be."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(bytes_max)
    except OSError:
        return None
