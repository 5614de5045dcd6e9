"""What a server says of its tools, made fit to be shown to a model, and the hash by which a change of it is seen.

A tool's description is an instruction to the model by a stranger. So it is bounded, and it counts as it was when the
user first used the server: a server that is trusted today must not say something else tomorrow.
"""

from __future__ import annotations

import fnmatch
import hashlib
from typing import Any

import msgspec

from turnwright.schema.mcp import McpServer, RemoteTool
from turnwright.tools.shorten import plain

DESCRIPTION_CHARS_MAX = 4_000
SCHEMA_BYTES_MAX = 64 * 1024
SCHEMA_DEPTH_MAX = 32
TOOLS_MAX = 500
"""Of one server."""


def remote_tool(described: dict[str, Any]) -> RemoteTool | str:
    """`described` is an entry of `tools/list`. Text where it cannot be used, and why."""
    name = described.get("name")
    if not isinstance(name, str) or not name:
        return "a tool without a name"
    schema = described.get("inputSchema")
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return f"{plain(name)}: its arguments are no JSON object"
    size = len(msgspec.json.encode(schema))
    if size > SCHEMA_BYTES_MAX:
        return f"{plain(name)}: its schema has {size:,} bytes; at most {SCHEMA_BYTES_MAX:,} are taken"
    if _is_deeper(schema, SCHEMA_DEPTH_MAX):
        return f"{plain(name)}: its schema is nested more than {SCHEMA_DEPTH_MAX} levels deep"
    annotations = described.get("annotations")
    annotations = annotations if isinstance(annotations, dict) else {}
    described_as = {key: described.get(key) for key in ("name", "title", "description", "inputSchema", "annotations")}
    return RemoteTool(
        name=name,
        description=_description(described, annotations),
        parameters={"properties": {}, **schema, "type": "object"},
        read_only=annotations.get("readOnlyHint") is True,
        sha256=hashlib.sha256(msgspec.json.encode(described_as, order="sorted")).hexdigest(),
    )


def wanted(tool: RemoteTool, settings: McpServer) -> bool:
    """Whether the configuration lets it be offered."""
    allowed = settings.allow is None or _any(tool.name, settings.allow)
    return allowed and not _any(tool.name, settings.deny)


def _is_deeper(value: object, levels: int) -> bool:
    """Without descending further than that."""
    match value:
        case dict():
            return levels == 0 or any(_is_deeper(each, levels - 1) for each in value.values())
        case list():
            return levels == 0 or any(_is_deeper(each, levels - 1) for each in value)
        case _:
            return False


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _description(described: dict[str, Any], annotations: dict[str, Any]) -> str:
    said = described.get("description") or described.get("title") or annotations.get("title") or described["name"]
    text = plain(str(said)).strip()
    if len(text) <= DESCRIPTION_CHARS_MAX:
        return text
    return f"{text[:DESCRIPTION_CHARS_MAX]} [... {len(text):,} characters, cut]"
