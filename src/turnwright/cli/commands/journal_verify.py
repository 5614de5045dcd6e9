"""`turnwright journal verify`: every flipped bit and every cut tail, named."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from turnwright.cli.exit_codes import ExitCode
from turnwright.cli.options import add_json_option
from turnwright.cli.terminal import Terminal
from turnwright.config.folders import folders_of_environment
from turnwright.schema.errors import InputError


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", metavar="DIR", help="the folder of a journal (default: your own)")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """0 where everything is as it was written."""
    import msgspec

    from turnwright.journal.verify import verify
    from turnwright.views.text import Span, line, one_line, plural

    folder = Path(args.dir).expanduser() if args.dir else folders_of_environment().journal
    try:
        there = folder.is_dir()
        readable = there and os.access(folder, os.R_OK | os.X_OK)
    except PermissionError:
        there, readable = True, False
    if not there:
        raise InputError(f"There is no journal in {folder}.", remedy="Nothing was recorded there yet.")
    if not readable:
        raise InputError(
            f"The journal in {folder} cannot be read: Permission denied.", remedy="Change its permissions."
        )
    report = verify(folder)
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode({"clean": report.clean, **msgspec.to_builtins(report)}) + b"\n")
    else:
        terminal = Terminal(sys.stdout)
        terminal.lines(line(Span(f"{one.place:<9}", "bad"), one_line(one.message)) for one in report.findings)
        verdict = "clean" if report.clean else plural(len(report.findings), "finding")
        terminal.lines(
            [
                line(
                    Span(verdict, "good" if report.clean else "bad"),
                    f": {plural(report.facts, 'fact')} in {plural(report.conversations, 'conversation')}, "
                    f"{plural(report.blobs, 'payload')}, {plural(report.pages, 'page')} of {one_line(str(folder))}",
                )
            ]
        )
    return ExitCode.DONE if report.clean else ExitCode.ERROR
