"""A piece of work for a subagent."""

from __future__ import annotations

from typing import Annotated

import msgspec

from turnwright.schema.errors import ToolFailure
from turnwright.schema.tools import Delegation, ToolOutcome
from turnwright.tools.context import ToolContext
from turnwright.tools.registry import tool

Count = Annotated[int, msgspec.Meta(gt=0)]
Usd = Annotated[float, msgspec.Meta(gt=0)]


@tool(effect="runs", concurrent=True)
async def task(
    ctx: ToolContext,
    brief: str,
    title: str = "",
    tools: list[str] = [],  # noqa: B006 - copied per call
    max_steps: Count | None = None,
    max_tokens: Count | None = None,
    max_cost_usd: Usd | None = None,
) -> ToolOutcome:
    """Give a piece of work to a subagent: an agent of its own, in the same workspace, that knows nothing but its brief.

    You get its last message, and nothing else that it did or saw. Good for work that stands by itself and would fill
    your context: a broad search, an independent part of a change. Several calls in one reply work side by side; do not
    let two of them write the same files.

    Args:
        brief: All it must know: what to do, where, what to leave alone, and what to report back.
        title: A few words, for whoever watches.
        tools: Names of the tools that it is offered. Left out: all of yours.
        max_steps: It stops after so many steps.
        max_tokens: It stops after so many tokens. Whatever it spends counts as yours too.
        max_cost_usd: It stops after that many US dollars.
    """
    if not brief.strip():
        raise ToolFailure("The brief is empty.", remedy="A subagent knows nothing but its brief.")
    return await ctx.delegate(
        Delegation(
            brief=brief,
            title=title,
            tools=tuple(tools),
            max_steps=max_steps,
            max_tokens=max_tokens,
            max_cost_usd=max_cost_usd,
        )
    )
