"""Run one coroutine to its end and leave: signals ask it to stop, and what will not stop does not hold the exit."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

LEAVE_AFTER_S = 0.5


def run(main: Coroutine[Any, Any, int]) -> int:
    """`asyncio.run`, except that a task which ignores its cancellation is left behind: a tool of the user's must not
    turn a cancelled run into one that hangs."""
    with asyncio.Runner() as runner:
        code = runner.run(main)
        left = runner.run(_stop_others())
        if left:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return code


async def _stop_others() -> int:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if not others:
        return 0
    _, left = await asyncio.wait(others, timeout=LEAVE_AFTER_S)
    return len(left)


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """SIGINT and SIGTERM ask for a stop; a second one ends the process at once, as any program would."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def asked() -> None:
        for each in signals:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)
        stop()

    for each in signals:
        loop.add_signal_handler(each, asked)
    try:
        yield
    finally:
        for each in signals:
            loop.remove_signal_handler(each)
