"""`turnwright wire keep`: an incident becomes a test."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from turnwright.app.kept_captures import captured, keep
from turnwright.app.reading import open_for_reading
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, loaded_config
from turnwright.cli.points import facts_to, point_named
from turnwright.schema.errors import InputError


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("conversation", metavar="ID[:SEQ]", help="a conversation, or up to a point in one")
    parser.add_argument("folder", metavar="DIR", help="where the files go: one cassette and one expectation each")
    add_config_options(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))
    point = point_named(args.conversation)

    async def main() -> int:
        kept = 0
        async with open_for_reading(loaded) as journal:
            async for each in captured(journal, await facts_to(journal, point)):
                sys.stdout.write(f"{await keep(each, Path(args.folder))}\n")
                kept += 1
        if not kept:
            raise InputError(
                f"No attempt of {args.conversation} has its bytes in the journal.",
                remedy="Failed ones are kept by default; capture: all keeps every one.",
            )
        return 0

    return asyncio.run(main())
