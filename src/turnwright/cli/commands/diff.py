"""`turnwright diff`: two conversations step by step."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from turnwright.app.reading import open_for_reading
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, loaded_config
from turnwright.cli.points import facts_to, point_named
from turnwright.cli.terminal import Terminal
from turnwright.views.comparison import compared, comparison_lines


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A[:SEQ]", help="a conversation, or its beginning up to a fact")
    parser.add_argument("b", metavar="B[:SEQ]", help="the other one")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """0 whether they differ or not: to differ is no failure."""
    loaded = loaded_config(args, workspace_of(args.cwd))

    async def main() -> int:
        async with open_for_reading(loaded) as journal:
            a = await facts_to(journal, point_named(args.a))
            b = await facts_to(journal, point_named(args.b))
        found = compared(a, b)
        if args.json:
            sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        else:
            Terminal(sys.stdout).lines(comparison_lines(found))
        return 0

    return asyncio.run(main())
