"""Two commands in one workspace at the same time, each in a sandbox of its own: the one against the other's walls.

The suite starts the second while the first runs, and makes a file `go` when it has ended.
"""

from __future__ import annotations

import ctypes
import os
import time

from attack_kit import Target, attack, create, libc

WAIT_S = 8.0
RENAME_EXCHANGE = 2


@attack("companion-sleeps")
def protected_after_another_has_ended(target: Target) -> None:
    """What stands where nothing is yet to be, stands for both: the first to end must not take it away."""
    _wait_for_go()
    stopped: OSError | None = None
    for folder, name in ((".turnwright", "config.yaml"), (".", ".mcp.json"), (".github/workflows", "mine.yml")):
        try:
            os.makedirs(folder, exist_ok=True)
            create(f"{folder}/{name}", target)
        except OSError as failed:
            stopped = failed
    if stopped:
        raise stopped


@attack("nested", "companion-writes")
def repository_exchanged_for_a_link(_target: Target) -> None:
    """While another is being confined, what it is about to protect by its name becomes something else."""
    os.symlink("../outside", "aside")
    _exchange("nested", "aside")


@attack("companion-writes", "own-repository")
def new_repository_exchanged_for_a_link(target: Target) -> None:
    os.makedirs("nested/.git/hooks")
    create("nested/.git/config", target)
    create("nested/.git/HEAD", target, "ref: refs/heads/main\n")
    os.symlink("../outside", "aside")
    _exchange("nested", "aside")


@attack("companion-writes", "own-repository")
def folder_above_exchanged_for_a_link(target: Target) -> None:
    os.makedirs("above/nested/.git/hooks")
    create("above/nested/.git/config", target)
    os.symlink("above/nested", "nested")
    os.symlink("../outside", "aside")
    os.makedirs("elsewhere")
    os.symlink("../../outside", "elsewhere/nested")
    _exchange("above", "elsewhere")


def _exchange(one: str, other: str) -> None:
    end = time.monotonic() + WAIT_S
    while not os.path.exists("go") and time.monotonic() < end:
        if libc.renameat2(-100, one.encode(), -100, other.encode(), RENAME_EXCHANGE):
            raise OSError(ctypes.get_errno(), f"renameat2: {os.strerror(ctypes.get_errno())}")


def _wait_for_go() -> None:
    end = time.monotonic() + WAIT_S
    while not os.path.exists("go") and time.monotonic() < end:
        time.sleep(0.02)
