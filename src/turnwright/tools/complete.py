"""How a model says that the task is done, where the configuration asks for more than silence."""

from __future__ import annotations

from turnwright.tools.registry import tool


@tool(effect="reads", timeout_s=5)
async def mark_task_complete(summary: str) -> str:
    """Say that the task is done. This ends it: call it last, alone, and only when everything that was asked is done and
    was seen to work.

    Args:
        summary: For the user, in a few plain sentences: what was changed and how it was shown to work.
    """
    return f"Marked as done: {summary}"
