"""What the user hands over: files, `-`, a task from stdin."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from turnwright.schema.errors import InputError, UsageError


def read_given(name: str) -> bytes:
    """A file, or stdin for `-`."""
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as bad:
        raise InputError(f"The file {name} cannot be read: {bad.strerror}.", remedy="Check the name.") from bad


def text_of(raw: bytes, name: str) -> str:
    """Newlines stay as they are."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as bad:
        where = "stdin" if name == "-" else name
        raise InputError(f"{where} is not UTF-8 text (byte {bad.start}).", remedy="Convert it first.") from bad


def task_of(words: str | None, *, required: bool = True) -> str:
    """The task from the command line; else, or for `-`, from a stdin that is not a terminal. A task that was given
    never waits for a stdin that somebody left open. Empty where there is none and none is required."""
    if words is not None and words != "-":
        task = words
    elif words == "-" or (required and not sys.stdin.isatty()):
        task = text_of(sys.stdin.buffer.read(), "-")
    elif required:
        raise UsageError("There is no task.", remedy='Give one: turnwright run "fix the failing test".')
    else:
        return ""
    if not task.strip():
        raise InputError("The task is empty.", remedy="Say what is to be done.")
    return task


def workspace_of(cwd: str | None) -> Path:
    """The folder to work in, absolute; it must be one."""
    folder = Path(cwd).expanduser() if cwd else Path()
    try:
        resolved = folder.resolve(strict=True)
    except (OSError, RuntimeError) as bad:
        raise InputError(
            f"The workspace {folder} does not exist.", remedy="Name an existing folder with --cwd."
        ) from bad
    if not resolved.is_dir():
        raise InputError(f"The workspace {folder} is not a folder.", remedy="Name a folder with --cwd.")
    if not os.access(resolved, os.R_OK | os.X_OK):
        raise InputError(
            f"The workspace {folder} cannot be looked into: Permission denied.",
            remedy="Change its permissions, or name another with --cwd.",
        )
    return resolved
