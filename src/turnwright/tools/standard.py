"""The tools that come with Turnwright, in the order in which they are offered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def standard_tools() -> tuple[Callable[..., Any], ...]:
    """Imported on use: a run that offers none of them does not pay for them."""
    from turnwright.tools.ask import ask_user
    from turnwright.tools.files import edit, ls, read, write
    from turnwright.tools.patch.tool import patch
    from turnwright.tools.search import glob, grep
    from turnwright.tools.shell import bash, bash_kill, bash_output
    from turnwright.tools.task import task
    from turnwright.tools.todo import todo

    return (read, write, edit, patch, ls, glob, grep, bash, bash_output, bash_kill, todo, ask_user, task)
