"""What the environment says about the terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec


class Display(msgspec.Struct, frozen=True, kw_only=True):
    color: bool
    """False under NO_COLOR (whatever its value) and on a dumb terminal."""
    dumb: bool
    """It cannot rewrite a line."""
    columns: int | None
    """A width that overrules the terminal's own."""


def display_of(environ: Mapping[str, str] | None = None) -> Display:
    environ = os.environ if environ is None else environ
    dumb = environ.get("TERM", "") in ("dumb", "")
    columns = environ.get("COLUMNS", "")
    return Display(
        color=not environ.get("NO_COLOR") and not dumb,
        dumb=dumb,
        columns=int(columns) if columns.isdecimal() and 0 < int(columns) < 10_000 else None,
    )
