"""The `patch` tool. What it needs is imported when it is called: a run may never send a patch."""

from __future__ import annotations

from typing import Literal

from turnwright.schema.tools import ToolOutcome
from turnwright.tools.context import ToolContext
from turnwright.tools.registry import tool


@tool(effect="writes", timeout_s=60)
async def patch(
    ctx: ToolContext,
    text: str,
    format: Literal["auto", "apply_patch", "search_replace", "udiff", "v4a_diff"] = "auto",  # noqa: A002
    path: str = "",
) -> ToolOutcome:
    """Change several files, or several places, at once. All of it is applied, or nothing is.

    Formats: `*** Begin Patch` envelopes (apply_patch), SEARCH/REPLACE blocks under a path (search_replace), unified
    diffs (udiff), and the bare @@ sections of one file (v4a_diff, which needs `path`). Paths are relative to the
    workspace. Give three lines of context around each change.

    Args:
        text: The patch.
        format: Which format it is in; found out if not given.
        path: The file a v4a_diff is for.
    """
    from turnwright.tools.patch.machine import apply_to_machine

    return await apply_to_machine(ctx, text, None if format == "auto" else format, path)
