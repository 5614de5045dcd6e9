"""`turnwright guards backtest`: what guards say of conversations that are over: what they would have done, and saved.

Without --guards these are the guards as they are configured now.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from turnwright.app.guards import guards_of
from turnwright.app.reading import facts_of, named_conversation, open_for_reading
from turnwright.cli.exit_codes import ExitCode
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.config.load import Loaded, load
from turnwright.session.backtest import Backtest, Trip, backtest
from turnwright.views.text import Line, Span, line, one_line


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("conversations", nargs="+", metavar="ID", help="as sessions lists them, or last")
    parser.add_argument("--guards", metavar="FILE", help="a configuration whose guards and completion are tried")
    parser.add_argument("--check", action="store_true", help="leave with 1 if anything differs from what was recorded")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.cwd)
    loaded = loaded_config(args, workspace)
    tried = load(workspace, file=Path(args.guards).expanduser()) if args.guards else loaded
    found = asyncio.run(_tried(loaded, tried, args.conversations))
    if args.json:
        for each in found:
            sys.stdout.buffer.write(msgspec.json.encode(_said(each)) + b"\n")
    else:
        Terminal(sys.stdout).lines(each for one in found for each in _lines(one))
    differs = any(each.new or each.gone for each in found)
    return ExitCode.ERROR if args.check and differs else ExitCode.DONE


async def _tried(loaded: Loaded, tried: Loaded, names: Sequence[str]) -> list[Backtest]:
    make = guards_of(tried.settings)
    async with open_for_reading(loaded) as journal:
        found = []
        for name in names:
            conversation_id = await named_conversation(journal, name)
            await facts_of(journal, conversation_id)
            found.append(await backtest(journal, conversation_id, make()))
        return found


def _said(each: Backtest) -> dict[str, Any]:
    return {**msgspec.structs.asdict(each), "new": each.new, "gone": each.gone}


def _lines(each: Backtest) -> Iterator[Line]:
    same = "" if each.new or each.gone else ", the same"
    counts = f"{each.facts} facts, {len(each.recorded)} verdicts then, {len(each.trips)} now{same}"
    yield line(Span(each.conversation_id, "heading"), f"  {counts}")
    for trip in each.gone:
        yield line(Span(f"  - {_trip(trip)}", "bad"))
    for trip in each.new:
        yield line(Span(f"  + {_trip(trip)}", "good"))
    for saved in each.saved:
        cost = f", ${saved.cost_usd:.4f}" if saved.cost_usd else ""
        yield line(
            f"  ends after fact {saved.after_seq}: {saved.steps} steps and {saved.tokens} tokens followed it{cost}"
        )


def _trip(trip: Trip) -> str:
    return f"fact {trip.seq}  {one_line(trip.guard)} {trip.verdict}: {one_line(trip.why)}"
