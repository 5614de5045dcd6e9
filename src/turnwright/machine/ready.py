"""A command as a warden must start it."""

from __future__ import annotations

import marshal
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

StartedBy: TypeAlias = Literal["warden", "launcher", "parent"]
"""`launcher`: something that confines itself, reports, and then becomes the command. `parent`: something that stays
beside it, and reports its end too."""


def nothing() -> None: ...


async def at_once() -> None: ...


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    argv: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment."""
    started_by: StartedBy = "warden"
    extra: tuple[tuple[int, int], ...] = ()
    """Further descriptors, and the numbers under which they must be found. `close` closes them."""
    running: Callable[[], Awaitable[None]] = at_once
    """Called once it runs."""
    over: Callable[[], None] = nothing
    """Called when it has ended, or could not be started."""

    def request(self, *, talks: bool = False) -> bytes:
        """For the warden, see `warden.py`."""
        fields = {
            "argv": [os.fsencode(argument) for argument in self.argv],
            "env": [os.fsencode(f"{name}={value}") for name, value in self.env.items()],
            "extra": [str(number).encode() for _, number in self.extra],
        }
        if self.started_by != "warden":
            fields["confined"] = []
        if self.started_by == "parent":
            fields["stays"] = []
        if talks:
            fields["talks"] = []
        return marshal.dumps(fields)

    def close(self) -> None:
        for fd, _ in self.extra:
            os.close(fd)


def unconfined(argv: Sequence[str], env: Mapping[str, str]) -> Ready:
    return Ready(argv=tuple(argv), env=env)
