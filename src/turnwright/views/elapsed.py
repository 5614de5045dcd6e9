"""How long a turn ran: wall time without the hours in which its process was dead."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from turnwright.schema.facts import (
    AttemptEnded,
    AttemptStarted,
    Note,
    Recorded,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)


class Elapsed(msgspec.Struct, frozen=True, kw_only=True):
    """`running` is whatever has started and not ended: a turn that ends over it was buried by another process."""

    started_at: int
    last_at: int
    dead_ms: int = 0
    running: frozenset[str] = frozenset()

    @property
    def ms(self) -> float:
        return float(max(0, self.last_at - self.started_at - self.dead_ms))


def fold_elapsed(state: Elapsed | None, recorded: Recorded) -> Elapsed | None:
    """None before the first turn; after a turn's end, what that turn took."""
    fact, at = recorded.fact, recorded.at
    if isinstance(fact, TurnStarted):
        return Elapsed(started_at=at, last_at=at)
    if state is None:
        return None
    since_ms, running = max(0, at - state.last_at), state.running
    dead_ms = 0
    match fact:
        case AttemptStarted():
            running = running | {f"attempt {fact.purpose}"}
        case AttemptEnded():
            running = running - {f"attempt {fact.purpose}"}
        case ToolStarted():
            running = running | {f"tool {fact.call_id}"}
        case ToolEnded():
            running = running - {f"tool {fact.call_id}"}
        case Note(code="turn-resumed"):
            dead_ms, running = since_ms, frozenset()
        case TurnEnded():
            dead_ms, running = since_ms if running else 0, frozenset()
        case _:
            pass
    return replace(state, last_at=state.last_at + since_ms, dead_ms=state.dead_ms + dead_ms, running=running)
