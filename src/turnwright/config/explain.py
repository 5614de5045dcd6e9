"""Every setting, its value and where that came from; secrets masked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from turnwright.config.layers import Place, dotted, leaves_of
from turnwright.config.load import Loaded
from turnwright.schema.masking import Masker, masked_told
from turnwright.schema.settings import Settings


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    value: object
    layer: str
    where: str
    """`path:line`, the variable or the flag; empty for a default."""


def explain(loaded: Loaded) -> list[Explained]:
    """In the order of the tree, defaults included."""
    mask = Masker()
    rows = []
    for path, value in leaves_of(loaded.settings):
        place = loaded.said[path].place if path in loaded.said else Place(layer="default")
        shown = _shown(path, value, mask)
        rows.append(Explained(key=dotted(path), value=shown, layer=place.layer, where=place.where))
    return rows


def shown_settings(settings: Settings) -> Any:
    """The whole tree, for files that others may read; secrets masked."""
    return _shown((), msgspec.to_builtins(settings), Masker())


def _shown(path: Sequence[str], value: object, mask: Masker) -> object:
    match value:
        case str():
            is_told = len(path) >= 4 and path[0] in ("providers", "mcp") and path[-2] in ("headers", "query", "env")
            return masked_told(path[-1], value) if is_told else mask(value)
        case dict():
            return {name: _shown((*path, name), item, mask) for name, item in value.items()}
        case list():
            return [_shown(path, item, mask) for item in value]
        case _:
            return value
