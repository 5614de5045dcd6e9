"""What the user has answered with *always*: rules for one workspace, kept in the state folder, out of its reach."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from turnwright.config.owned_file import OwnedFile
from turnwright.schema.permissions import Rule, RuleLayer


class AlwaysRules:
    """One file for all workspaces of a user. Read once, when the first call is judged."""

    def __init__(self, path: Path, workspace: Path) -> None:
        self._file = OwnedFile(
            path, dict[str, tuple[Rule, ...]], "The list of what was always allowed", "Mend it, or delete it."
        )
        self._workspace = str(workspace.resolve())
        self._layer: RuleLayer | None = None

    def layer(self) -> RuleLayer:
        if self._layer is None:
            where = f"answered with always, in {self._file.path}"
            rules = self._file.read().get(self._workspace, ())
            self._layer = RuleLayer(name="workspace", rules=rules, where=where)
        return self._layer

    def add(self, rules: Iterable[Rule]) -> None:
        with self._file.changing() as kept:
            before = kept.get(self._workspace, ())
            kept[self._workspace] = (*before, *(rule for rule in rules if rule not in before))
        self._layer = None

    def forget(self) -> int:
        """How many there were."""
        with self._file.changing() as kept:
            count = len(kept.pop(self._workspace, ()))
        self._layer = None
        return count
