"""A question to the user."""

from __future__ import annotations

from turnwright.schema.errors import ToolFailure
from turnwright.tools.context import ToolContext
from turnwright.tools.registry import tool


@tool(effect="asks")
async def ask_user(ctx: ToolContext, question: str, choices: list[str] = []) -> str:  # noqa: B006 - copied per call
    """Ask the user something that you cannot find out yourself and must know to go on.

    Args:
        question: One clear question.
        choices: Likely answers to pick from, if there are any.
    """
    answer = await ctx.ask(question, choices)
    if answer is None:
        raise ToolFailure(
            "Nobody can answer now, which counts as a no.",
            remedy="Go on without it as far as is safe, and say what you left open.",
        )
    return answer
