"""Which face a command line gets, and who answers its questions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from turnwright.app.engine import Engine
from turnwright.cli.output import Face, JsonFace, Output, StreamFace
from turnwright.kernel.ports import Ask
from turnwright.session.questions import Questions

if TYPE_CHECKING:
    from turnwright.cli.terminal import Terminal


@contextmanager
def face_of(output: Output, engine: Engine, log: Path | None = None) -> Iterator[Face]:
    """`log`: nobody watches, and what would be seen is written there."""
    logging = engine.loaded.settings.logging
    with ExitStack() as stack:
        if log is not None:
            from turnwright.cli.log_face import LogFace

            face: Face = stack.enter_context(LogFace(log, logging.level))
        else:
            face = _face(output, engine)
        if logging.file:
            from turnwright.cli.log_face import Both, LogFace

            also = stack.enter_context(LogFace(Path(logging.file), logging.level))
            face = Both([face, also])
        yield face


def _face(output: Output, engine: Engine) -> Face:
    match output:
        case "json":
            return JsonFace(sys.stdout.buffer)
        case "stream-json":
            return StreamFace(sys.stdout.buffer)
        case "text":
            from turnwright.cli.terminal import Terminal
            from turnwright.cli.text_face import TextFace

            level = engine.loaded.settings.logging.level
            return TextFace(Terminal(sys.stdout), _stderr(), level=level, monotonic=engine.clock.monotonic)


def questions_of(args: argparse.Namespace, engine: Engine) -> Questions:
    """Answered at the terminal, or by `turnwright answer`, whichever comes first. Where there is no terminal, and the
    turn was not left in the background for somebody to come back to, a question is a denial at once."""
    wait_s = engine.loaded.settings.host.answer_wait_s if args.detach and not args.no_input else 0.0
    return Questions(_here(args), engine.clock, wait_s=wait_s)


def _here(args: argparse.Namespace) -> Ask | None:
    """The person at the terminal; nobody where there is none, or where `--no-input` says so."""
    there = sys.stdin.isatty() and sys.stderr.isatty()
    if not there or args.no_input or args.output != "text":
        return None
    from turnwright.cli.asking import Asker

    return Asker(_stderr(), sys.stdin.fileno())


@cache
def _stderr() -> Terminal:
    """One for the face and for questions: the status line must not run over an answer that is being typed."""
    from turnwright.cli.terminal import Terminal

    return Terminal(sys.stderr)
