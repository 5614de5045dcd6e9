"""Which face a command line gets, and who answers its questions."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from turnwright.app.engine import Engine, nobody_answers
from turnwright.cli.output import Face, JsonFace, Output, StreamFace
from turnwright.kernel.ports import Ask


@contextmanager
def face_of(output: Output, engine: Engine) -> Iterator[Face]:
    logging = engine.loaded.settings.logging
    with ExitStack() as stack:
        face = _face(output, engine)
        if logging.file:
            from turnwright.cli.log_face import Both, LogFace

            log = stack.enter_context(LogFace(Path(logging.file), logging.level))
            face = Both([face, log])
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
            return TextFace(Terminal(sys.stdout), Terminal(sys.stderr), level=level, monotonic=engine.clock.monotonic)


def ask_of(args: argparse.Namespace) -> Ask:
    """The person at the terminal; nobody where there is none, or where `--no-input` says so."""
    there = sys.stdin.isatty() and sys.stderr.isatty()
    return _ask_terminal if there and not args.no_input and args.output == "text" else nobody_answers


async def _ask_terminal(question: str, choices: Sequence[str]) -> str | None:
    """An empty line or the end of input is no answer."""
    from turnwright.views.text import safe

    listed = f" [{' / '.join(choices)}]" if choices else ""
    sys.stderr.write(f"\n? {safe(question)}{safe(listed)}\n> ")
    sys.stderr.flush()
    line = await asyncio.to_thread(sys.stdin.readline)
    return line.strip() or None
