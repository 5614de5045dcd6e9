"""When a turn goes on to the next mode of its course. Pure; every change is a fact (K14)."""

from __future__ import annotations

from turnwright.kernel.limits import Tally
from turnwright.schema.facts import ModeChanged
from turnwright.schema.ids import TurnId
from turnwright.schema.messages import RuntimeMessage
from turnwright.schema.modes import Course

ANSWERED = "the model had nothing more to do in it"


def change_of(course: Course, tally: Tally, turn_id: TurnId | None) -> ModeChanged | None:
    """Asked between two steps. A mode is over once the model answers without a call, or when its steps are used up. An
    answer that a guard did not accept is none."""
    before, after = tally.mode, course.after(tally.mode)
    if not after:
        return None
    limit = course.plan_turn_limit
    if tally.answered and not tally.nudged:
        reason = ANSWERED
    elif limit is not None and tally.mode_steps >= limit:
        reason = f"plan_turn_limit: {tally.mode_steps} of {limit} steps are taken"
    else:
        return None
    return ModeChanged(turn_id=turn_id, before=before, after=after, reason=reason, said=said_of(before, after))


def said_of(before: str, after: str) -> RuntimeMessage:
    return RuntimeMessage(
        code="mode",
        text=f"The {before} mode is over. You are in {after} mode now, and other tools are offered. Go on with the "
        "task from what you have worked out so far.",
    )


def told_of(mode: str, text: str) -> RuntimeMessage:
    """What a mode is, where the system prompt does not say it."""
    return RuntimeMessage(code="mode-prompt", text=_head(mode) + text)


def text_of(said: RuntimeMessage, mode: str) -> str:
    """What it was told with."""
    return said.text.removeprefix(_head(mode))


def _head(mode: str) -> str:
    return f"Mode: {mode}.\n"
