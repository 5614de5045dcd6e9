"""`turnwright health`: how the routes have been, and whether somebody should look."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from turnwright.app.clock import SystemClock
from turnwright.app.reading import open_for_reading
from turnwright.app.weather import weather
from turnwright.cli.exit_codes import ExitCode
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.views.weather import weather_lines

HOUR_MS = 3_600_000


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hours", metavar="N", type=hours, default=24.0, help="look back so far (default: 24)")
    parser.add_argument("--check", action="store_true", help="leave with 59 if a circuit is open or an alert stands")
    add_config_options(parser)
    add_json_option(parser)


def hours(word: str) -> float:
    if not (number := float(word)) > 0:
        raise ValueError(word)
    return number


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))

    async def main() -> int:
        async with open_for_reading(loaded) as journal:
            found = await weather(journal, loaded, SystemClock().wall_ms() - round(args.hours * HOUR_MS))
        if args.json:
            for each in found:
                sys.stdout.buffer.write(msgspec.json.encode(each) + b"\n")
        else:
            terminal = Terminal(sys.stdout)
            terminal.lines(weather_lines(found, terminal.columns))
        bad = any(each.alerts or each.circuit == "open" for each in found)
        return ExitCode.UNAVAILABLE if args.check and bad else ExitCode.DONE

    return asyncio.run(main())
