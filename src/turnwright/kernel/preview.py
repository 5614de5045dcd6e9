"""What a call is about to write, short enough to be glanced at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnwright.schema.ids import CallId
from turnwright.schema.live import ToolPreview

LINES = 8
LINE_CHARS = 200
REPLACED_CHARS = 50
WHOLE_TEXTS = ("content", "patch", "diff")
"""Arguments that hold what is written."""


def preview_of(call_id: CallId, name: str, arguments: Mapping[str, Any]) -> ToolPreview:
    """By what the arguments are called: tools of others, too, write a `content` and replace an `old` by a `new`."""
    text = next((arguments[key] for key in WHOLE_TEXTS if isinstance(arguments.get(key), str)), "")
    first = text.removesuffix("\n").split("\n", LINES)
    return ToolPreview(
        call_id=call_id,
        name=name,
        path=_text(arguments, "path"),
        lines=tuple(_cut(each, LINE_CHARS) for each in first[:LINES] if text),
        more_lines=first[LINES].count("\n") + 1 if len(first) > LINES else 0,
        old=_cut(_text(arguments, "old"), REPLACED_CHARS),
        new=_cut(_text(arguments, "new"), REPLACED_CHARS),
    )


def _text(arguments: Mapping[str, Any], key: str) -> str:
    value = arguments.get(key)
    return value if isinstance(value, str) else ""


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
