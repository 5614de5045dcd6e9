"""Every setting, its value and where that came from; secrets masked."""

from __future__ import annotations

import msgspec

from turnwright.config.layers import Place, dotted, leaves_of
from turnwright.config.load import Loaded
from turnwright.schema.masking import Masker, masked_header


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
        if isinstance(value, str):
            is_header = len(path) == 4 and path[0] == "providers" and path[2] == "headers"
            value = masked_header(path[3], value) if is_header else mask(value)
        rows.append(Explained(key=dotted(path), value=value, layer=place.layer, where=place.where))
    return rows
