"""A tool call's arguments in a few words."""

from __future__ import annotations

import msgspec

from turnwright.views.text import clip, one_line

_PARSED_CHARS_MAX = 65_536


def values_of(arguments: str) -> dict[str, object] | None:
    """The arguments as an object; None where they are none, or too long to be worth the reading."""
    if len(arguments) > _PARSED_CHARS_MAX:
        return None
    try:
        parsed = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def brief(arguments: str, columns: int) -> str:
    """On one line: the value alone where there is but one, else `name=value` pairs."""
    values = values_of(arguments)
    if values is None:
        return clip(one_line(arguments[: 8 * columns]), columns)
    if len(values) == 1:
        return clip(_value(next(iter(values.values())), columns), columns)
    return clip(" ".join(f"{one_line(name)}={_value(value, columns)}" for name, value in values.items()), columns)


def _value(value: object, columns: int) -> str:
    if isinstance(value, str):
        return one_line(value[: 8 * columns])
    try:
        return one_line(msgspec.json.encode(value).decode()[: 8 * columns])
    except RecursionError:
        return "…"
