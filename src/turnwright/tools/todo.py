"""The model's plan, kept where the user sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from turnwright.schema.errors import ToolFailure
from turnwright.schema.tools import ToolOutcome
from turnwright.tools.context import ToolContext
from turnwright.tools.registry import tool

_MARKS = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}


class Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing to do."""

    text: str
    status: Literal["pending", "in_progress", "done"] = "pending"


@dataclass(slots=True)
class Plan:
    """This conversation's list."""

    items: tuple[Item, ...] = ()


@tool(effect="reads", timeout_s=5)
async def todo(ctx: ToolContext, items: list[Item]) -> ToolOutcome:
    """Write down the plan for a task of several steps, and keep it up to date. Each call replaces the whole list.

    At most one item is in_progress at a time. Mark an item done as soon as it is.

    Args:
        items: All items, in order.
    """
    active = sum(item.status == "in_progress" for item in items)
    if active > 1:
        raise ToolFailure(f"{active} items are in_progress.", remedy="Work on one at a time.")
    if any(not item.text.strip() for item in items):
        raise ToolFailure("An item has no text.")
    ctx.state(Plan).items = tuple(items)
    done = sum(item.status == "done" for item in items)
    lines = [f"{_MARKS[item.status]} {item.text}" for item in items]
    return ToolOutcome(output="\n".join(lines) or "(the list is empty)", detail={"items": len(items), "done": done})
