"""Turnwright: a coding-agent runtime whose every turn is durable, bounded, observable and repeatable."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know it by its name; importing it from `typing` would cost `--version` 6 ms

__version__ = "0.1.0"

if TYPE_CHECKING:
    from turnwright.app.agent import Agent as Agent
    from turnwright.app.agent import Answer as Answer
    from turnwright.schema.errors import ToolFailure as ToolFailure
    from turnwright.schema.errors import TurnwrightError as TurnwrightError
    from turnwright.schema.facts import Recorded as Recorded
    from turnwright.schema.limits import Limits as Limits
    from turnwright.schema.permissions import Permissions as Permissions
    from turnwright.schema.permissions import Rule as Rule
    from turnwright.tools.context import ToolContext as ToolContext
    from turnwright.tools.registry import tool as tool
    from turnwright.tools.standard import standard_tools as standard_tools

_HOMES = {
    "Agent": "turnwright.app.agent",
    "Answer": "turnwright.app.agent",
    "Limits": "turnwright.schema.limits",
    "Permissions": "turnwright.schema.permissions",
    "Recorded": "turnwright.schema.facts",
    "Rule": "turnwright.schema.permissions",
    "ToolContext": "turnwright.tools.context",
    "ToolFailure": "turnwright.schema.errors",
    "TurnwrightError": "turnwright.schema.errors",
    "standard_tools": "turnwright.tools.standard",
    "tool": "turnwright.tools.registry",
}
"""Where the public names live. They are imported on first use: `import turnwright` costs and does nothing."""

__all__ = ["Agent", "Answer", "Limits", "Permissions", "Recorded", "Rule", "ToolContext", "ToolFailure"]
__all__ += ["TurnwrightError", "__version__", "standard_tools", "tool"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'turnwright' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
