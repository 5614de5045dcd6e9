"""`turnwright export`: a conversation in a form that others read."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from turnwright.app.exporting import FORMATS
from turnwright.app.reading import open_for_reading
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_point, loaded_config
from turnwright.cli.points import facts_to, point_named
from turnwright.schema.errors import InputError


def add(parser: argparse.ArgumentParser) -> None:
    add_point(parser)
    said = "; ".join(f"{name}: {one.about}" for name, one in FORMATS.items())
    parser.add_argument("--format", choices=tuple(FORMATS), default="ir", help=said)
    parser.add_argument("--to", metavar="FILE", help="where to write it (default: stdout)")
    add_config_options(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))

    async def main() -> int:
        async with open_for_reading(loaded) as journal:
            facts = await facts_to(journal, point_named(args.conversation))
            document = FORMATS[args.format].written(journal, facts)
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
