"""What a project's own configuration may not say, even where the user has trusted it: it never widens what is permitted
(X4). And the rules of each layer, which keep their places instead of being merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnwright.config.layers import KeyPath, Layer, Leaf, dotted
from turnwright.schema.permissions import Permissions, RuleLayer

PROJECT = "project"
AUTONOMY: KeyPath = ("permissions", "autonomy")
RULES: KeyPath = ("permissions", "rules")
HOSTS: KeyPath = ("permissions", "hosts")
MACHINE = "machine"
STRICTEST: dict[KeyPath, object] = {
    ("machine", "sandbox"): "read-only",
    ("machine", "require_sandbox"): True,
    ("machine", "network"): "off",
}
"""What a project may say of where commands run: nothing but these values."""


def narrowed(layers: Sequence[Layer]) -> tuple[list[Layer], tuple[str, ...]]:
    """The layers without what is refused, and what was refused."""
    refused: list[str] = []
    kept = [
        {path: leaf for path, leaf in layer.items() if not _refused(path, leaf, layers, refused)} for layer in layers
    ]
    return list[Layer](kept), tuple(refused)


def _refused(path: KeyPath, leaf: Leaf, layers: Sequence[Layer], refused: list[str]) -> bool:
    if leaf.place.layer != PROJECT:
        return False
    why = ""
    if path == AUTONOMY and (least := _autonomy_of_user(layers)) < _number(leaf.value):
        why = f"it is more than {least}"
    elif path == HOSTS or (path[0] == MACHINE and (path not in STRICTEST or STRICTEST[path] != leaf.value)):
        why = "only you decide that"
    if why:
        refused.append(f"{leaf.place}: {dotted(path)}: {why}; a repository cannot widen its own permissions")
    return bool(why)


def _autonomy_of_user(layers: Sequence[Layer]) -> int:
    """Without the project's word."""
    said = [layer[AUTONOMY].value for layer in layers if AUTONOMY in layer and layer[AUTONOMY].place.layer != PROJECT]
    return _number(said[0]) if said else Permissions().autonomy


def _number(value: object) -> int:
    assert isinstance(value, int), "it was converted to its setting's type"
    return value


def rule_layers(layers: Sequence[Layer]) -> Iterator[RuleLayer]:
    for layer in layers:
        if (leaf := layer.get(RULES)) is not None:
            assert isinstance(leaf.value, tuple), "it was converted to its setting's type"
            name = leaf.place.layer
            yield RuleLayer(name=name, rules=leaf.value, where=str(leaf.place), narrows=name == PROJECT)
