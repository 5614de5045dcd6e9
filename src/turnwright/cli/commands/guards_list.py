"""`turnwright guards list`: what watches over a turn: thresholds, keys, what each may do and how the turn then ends."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import msgspec

from turnwright.app.guards import Listed, listed
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.views.text import Line, Span, line, one_line


def add(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    rows = listed(loaded_config(args, workspace_of(args.cwd)).settings)
    if args.json:
        for row in rows:
            sys.stdout.buffer.write(msgspec.json.encode(row) + b"\n")
    else:
        Terminal(sys.stdout).lines(each for row in rows for each in _lines(row))
    return 0


def _lines(row: Listed) -> Iterator[Line]:
    state = Span("on", "good") if row.enabled else Span("off", "warn")
    yield line(Span(one_line(row.name), "heading"), "  ", state, Span(f"  {row.source}" if row.source else "", "dim"))
    yield line(f"  watches   {one_line(row.watches)}")
    yield line(f"  event     guard.tripped, as {', '.join(row.verdicts)}")
    yield line(f"  ends as   {', '.join(row.reasons) or 'never ends a turn'}")
    yield line(f"  key       {one_line(row.key)}")
    for name, threshold in row.thresholds.items():
        value, default = _shown(threshold.value), _shown(threshold.default)
        said = Span("  (default)", "dim") if value == default else Span(f"  (default {default})", "warn")
        yield line(f"    {name} = {one_line(value)}", said)
    yield line("")


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()
