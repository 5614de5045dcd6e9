"""Folders for temporary files: what is left over goes, what is in use stays."""

from __future__ import annotations

from pathlib import Path

from turnwright.machine.sandbox.scratch import Scratch


def test_what_another_process_left_is_removed_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    parent = tmp_path / "tmp"
    (parent / "left" / "deep").mkdir(parents=True)
    one = Scratch(parent)
    other = Scratch(parent)
    assert set(parent.iterdir()) == {one.path, other.path}
    one.close()
    third = Scratch(parent)
    assert set(parent.iterdir()) == {other.path, third.path}
    other.close()
    third.close()
    assert not list(parent.iterdir())
