"""What became of one trial."""

from __future__ import annotations

from dataclasses import dataclass

from crash_judge import Fault
from crash_points import Point


@dataclass(frozen=True)
class Trial:
    point: Point
    died: bool
    """A point that is not met, because threads took turns in another way, is not counted."""
    found: str = ""
    """What the journal said at the death."""
    faults: tuple[Fault, ...] = ()
    resumed_s: float | None = None
    temporary_files: int = 0
    """In the workspace, of a write that was cut off."""
