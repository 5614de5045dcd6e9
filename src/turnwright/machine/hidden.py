"""Nobody of the same user looks into this process any more: it holds keys, and commands run beside it."""

from __future__ import annotations

import sys
from contextlib import suppress

_PR_SET_DUMPABLE = 4


def hide_this_process() -> None:
    """Neither its memory nor the environment that it was started with can be read through /proc or by a debugger, and
    no core is written. What it starts afterwards is not hidden. Root sees everything all the same."""
    if sys.platform != "linux":
        return
    import ctypes
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, most))
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
