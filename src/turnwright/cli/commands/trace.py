"""`turnwright trace`: where the time, the tokens and the money went."""

from __future__ import annotations

import argparse
import asyncio
import sys

from turnwright.app.reading import open_for_reading
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, add_point, loaded_config
from turnwright.cli.points import facts_to, point_named
from turnwright.cli.terminal import Terminal
from turnwright.views.fold import folded
from turnwright.views.timeline import TimelineState, encode_timeline, fold_timeline, timeline
from turnwright.views.trace import trace_lines


def add(parser: argparse.ArgumentParser) -> None:
    add_point(parser)
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))

    async def main() -> int:
        async with open_for_reading(loaded) as journal:
            facts = await facts_to(journal, point_named(args.conversation))
        whole = timeline(folded(fold_timeline, TimelineState(), facts))
        if args.json:
            sys.stdout.buffer.write(encode_timeline(whole) + b"\n")
            return 0
        terminal = Terminal(sys.stdout)
        terminal.lines(trace_lines(whole, terminal.columns))
        return 0

    return asyncio.run(main())
