"""A subagent's end, as the one that sent it reads it: the same live and after a crash. Pure."""

from __future__ import annotations

from turnwright.schema.facts import SubagentEnded
from turnwright.schema.tools import Detail, ToolOutcome


def result_of(ended: SubagentEnded) -> ToolOutcome:
    """One that did not come to an end of its own gives what it has, and the error (K9)."""
    detail: Detail = {
        "conversation": ended.conversation,
        "reason": ended.reason,
        "steps": ended.steps,
        "tokens": ended.spent_tokens,
        "cost_usd": ended.cost_usd,
    }
    if ended.reason == "stop":
        return ToolOutcome(output=ended.text, detail=detail)
    why = f"{ended.reason}: {ended.detail}" if ended.detail else ended.reason
    error = f"Error: the subagent ended early ({why}) after {_steps(ended)}."
    said = f"{error} This is as far as it came:\n\n{ended.text}" if ended.text.strip() else f"{error} It said nothing."
    return ToolOutcome(output=said, outcome="failed", detail=detail)


def left_behind(ended: SubagentEnded) -> str:
    """Of one whose process died."""
    came = f"{_steps(ended)} far" if ended.steps else "nowhere"
    said = f" The last thing it said: {ended.text}" if ended.text.strip() else ""
    return f"Its subagent (conversation {ended.conversation}) came {came}; what it did stands.{said}"


def _steps(ended: SubagentEnded) -> str:
    return "1 step" if ended.steps == 1 else f"{ended.steps} steps"
