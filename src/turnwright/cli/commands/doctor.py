"""`turnwright doctor`: is everything here that a run needs?"""

from __future__ import annotations

import argparse
import sys

import msgspec

from turnwright.cli.checks import Check, checks
from turnwright.cli.exit_codes import ExitCode
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_json_option
from turnwright.cli.terminal import Terminal
from turnwright.views.text import Line, Span, Style, line, safe

_STYLES: dict[str, Style] = {"ok": "good", "missing": "warn", "broken": "bad"}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cwd", metavar="DIR", help="the folder to look at as a workspace (default: this one)")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """0 where a run could begin."""
    rows = list(checks(workspace_of(args.cwd)))
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(rows) + b"\n")
    else:
        terminal = Terminal(sys.stdout)
        for row in rows:
            terminal.lines(_lines(row))
    return ExitCode.ERROR if any(row.status == "broken" for row in rows) else ExitCode.DONE


def _lines(row: Check) -> list[Line]:
    shown = [line(Span(f"{row.status:<8}", _STYLES[row.status]), f"{row.name:<14} {safe(row.found)}")]
    if row.remedy:
        shown.append(line(Span(f"{'':<23} {safe(row.remedy)}", "dim")))
    return shown
