"""`turnwright show`: a conversation as a person reads it."""

from __future__ import annotations

import argparse
import asyncio
import sys

from turnwright.app.reading import blobs_of, open_for_reading
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, add_point, loaded_config
from turnwright.cli.points import facts_to, point_named
from turnwright.cli.terminal import Terminal
from turnwright.schema.facts import encode_line
from turnwright.views.fold import folded
from turnwright.views.show import show_lines
from turnwright.views.transcript import Transcript, entries, fold_transcript
from turnwright.views.wording import EVERYTHING, SHORTENED


def add(parser: argparse.ArgumentParser) -> None:
    add_point(parser)
    parser.add_argument("--full", action="store_true", help="nothing shortened, reasoning included")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))

    async def main() -> int:
        async with open_for_reading(loaded) as journal:
            facts = await facts_to(journal, point_named(args.conversation))
            blobs = await blobs_of(journal, facts)
        if args.json:
            for recorded in facts:
                sys.stdout.buffer.write(encode_line(recorded) + b"\n")
            return 0
        terminal = Terminal(sys.stdout)
        shown = entries(folded(fold_transcript, Transcript(), facts))
        terminal.lines(show_lines(shown, EVERYTHING if args.full else SHORTENED, blobs.get, terminal.columns))
        return 0

    return asyncio.run(main())
