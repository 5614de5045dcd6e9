"""`turnwright export`: a conversation in a form that others read."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO, get_args

from turnwright.app.exporting import FORMATS, Choices, sent
from turnwright.app.reading import open_for_reading
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_point, loaded_config
from turnwright.cli.points import facts_to, point_named
from turnwright.schema.errors import InputError, UsageError
from turnwright.views.otel_names import Names
from turnwright.views.text import plural


def add(parser: argparse.ArgumentParser) -> None:
    add_point(parser)
    said = "; ".join(f"{name}: {one.about}" for name, one in FORMATS.items())
    parser.add_argument("--format", choices=tuple(FORMATS), default="ir", help=said)
    parser.add_argument("--to", metavar="FILE", help="where to write it (default: stdout)")
    parser.add_argument("--endpoint", metavar="URL", help="of otel: send the spans to this collector (OTLP over HTTP)")
    said = "of otel: names of attributes (default: current)"
    parser.add_argument("--names", choices=get_args(Names), default=None, help=said)
    parser.add_argument("--content", action="store_true", help="of otel: what was said, too")
    add_config_options(parser)


def run(args: argparse.Namespace) -> int:
    if args.format != "otel" and (args.endpoint or args.names or args.content):
        raise UsageError("--endpoint, --names and --content are of spans.", remedy="Give --format otel.")
    if args.endpoint and args.to:
        raise UsageError("Spans go to a collector or into a file.", remedy="Give one of --endpoint and --to.")
    loaded = loaded_config(args, workspace_of(args.cwd))
    choices = Choices(names=args.names or "current", content=args.content)

    async def main() -> int:
        async with open_for_reading(loaded) as journal:
            facts = await facts_to(journal, point_named(args.conversation))
            if args.endpoint:
                count = await sent(facts, args.endpoint, choices)
                print(f"{plural(count, 'span')} sent.", file=sys.stderr)
                return 0
            document = FORMATS[args.format].written(journal, facts, choices)
            if args.to is None:
                await _written(document, sys.stdout.buffer)
            else:
                await _written_to(Path(args.to), document)
        return 0

    return asyncio.run(main())


async def _written_to(path: Path, document: AsyncIterator[bytes]) -> None:
    try:
        with path.open("wb") as file:
            await _written(document, file)
    except OSError as bad:
        raise InputError(f"{path} cannot be written: {bad.strerror}.", remedy="Name another with --to.") from bad


async def _written(document: AsyncIterator[bytes], file: BinaryIO) -> None:
    async for piece in document:
        file.write(piece)
