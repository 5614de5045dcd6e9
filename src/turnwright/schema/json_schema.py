"""The vocabulary as JSON Schema, and what would break those who rely on it. Pure: files are the caller's.

`generated/` holds the documents as they are, `released/` as they were last released; CI compares both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from turnwright.schema.facts import FACT_TYPES, SCHEMA_VERSION, KnownFact, Visibility
from turnwright.schema.guards import Guards
from turnwright.schema.live import LiveEvent
from turnwright.schema.settings import Providers, Settings

Document: TypeAlias = dict[str, Any]

DOCUMENTS = ("facts", "live", "settings")
RELEASED = ("facts", "live")
"""What others rely on; settings may still change between releases, with their own error message."""

_TITLES = {
    "facts": "A fact as every face shows it. Types and fields that are not listed here come from a newer version: keep "
    "them, and skip what you do not know.",
    "live": "A live event: what is happening right now. Never stored, never numbered.",
    "settings": "config.yaml",
}

_ENVELOPE: dict[str, Document] = {
    "schema_version": {"type": "integer", "description": f"Now {SCHEMA_VERSION}."},
    "conversation_id": {"type": "string"},
    "seq": {"type": "integer", "minimum": 1, "description": "From 1 in each conversation, without gaps."},
    "at": {"type": "integer", "description": "UTC milliseconds, for display; order is seq."},
    "visibility": msgspec.json.schema(Visibility),
}


def document(name: str) -> Document:
    made = msgspec.json.schema({"facts": KnownFact, "live": LiveEvent, "settings": Settings}[name])
    if name == "facts":
        for kind in FACT_TYPES.values():
            found = made["$defs"][kind.__name__]
            found["properties"] = {**_ENVELOPE, **found["properties"]}
            found["required"] = [*_ENVELOPE, *found["required"]]
    if name == "settings":
        for found in made["$defs"].values():
            _free_names(found)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"turnwright {name}",
        "description": _TITLES[name],
        **made,
    }


def encoded(made: Document) -> bytes:
    return msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"


def _free_names(found: Document) -> None:
    """Where a section gathers the names that users give in one field, they stand beside the fixed keys in a file."""
    fields = found.get("properties", {})
    for kind in (Providers, Guards):
        if found.get("title") == kind.__name__:
            found["additionalProperties"] = fields.pop(kind.rest)["additionalProperties"]
    for field in fields.values():
        if "$ref" in field:
            field.pop("default", None)  # said by the section's own fields


def breaking_changes(old: Document, new: Document) -> Iterator[str]:
    """What a reader of `old` could stumble over in `new`, one sentence each. Types, fields and enum values may be
    added; nothing may go, change its type, or begin to be required."""
    before, after = old["discriminator"]["mapping"], new["discriminator"]["mapping"]
    for tag, ref in before.items():
        if tag not in after:
            yield f"type {tag} is gone"
        else:
            yield from _changes(tag, _at(old, ref), _at(new, after[tag]), old, new)


def _changes(where: str, before: Document, after: Document, old: Document, new: Document) -> Iterator[str]:
    """Definitions are followed by place, not by name: a renamed struct with the same fields is the same JSON."""
    if "$ref" in before and "$ref" in after:
        yield from _changes(where, _at(old, before["$ref"]), _at(new, after["$ref"]), old, new)
    elif "enum" in before and "enum" in after:
        for value in before["enum"]:
            if value not in after["enum"]:
                yield f"{where} may no longer be {value!r}"
    elif "anyOf" in before and "anyOf" in after:
        yield from _alternatives(where, before["anyOf"], after["anyOf"], old, new)
    elif before.get("type") != after.get("type") or ("$ref" in before) != ("$ref" in after):
        yield f"{where} was {_kind(before)} and is {_kind(after)}"
    elif before.get("type") == "object" and "properties" in before:
        yield from _fields(where, before, after, old, new)
    else:
        for key in ("items", "additionalProperties"):
            if isinstance(before.get(key), dict):
                yield from _changes(f"{where}[]", before[key], after.get(key) or {}, old, new)


def _fields(where: str, before: Document, after: Document, old: Document, new: Document) -> Iterator[str]:
    required_before, required_after = set(before.get("required", ())), set(after.get("required", ()))
    for name, kind in before["properties"].items():
        if name not in after.get("properties", {}):
            yield f"{where}.{name} is gone"
            continue
        yield from _changes(f"{where}.{name}", kind, after["properties"][name], old, new)
        if name in required_before and name not in required_after:
            yield f"{where}.{name} was always there and may now be left out"
    for name in after.get("properties", {}):
        if name in required_after - required_before:
            yield f"{where}.{name} is now required"


def _alternatives(
    where: str, before: list[Document], after: list[Document], old: Document, new: Document
) -> Iterator[str]:
    for kind in before:
        same = [other for other in after if _kind(other) == _kind(kind)]
        if not same:
            yield f"{where} may no longer be {_kind(kind)}"
        elif "$ref" in kind:
            yield from _changes(where, kind, same[0], old, new)
    for kind in after:
        if _kind(kind) not in map(_kind, before):
            yield f"{where} may now be {_kind(kind)}"


def _kind(schema: Document) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    return "one of a list" if "enum" in schema else str(schema.get("type", "anything"))


def _at(whole: Document, ref: str) -> Document:
    found: Document = whole["$defs"][ref.rpartition("/")[2]]
    return found
