"""`turnwright journal verify`: every flipped bit and every cut tail, named."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

import msgspec

from turnwright.app.journals import opened_journal
from turnwright.cli.exit_codes import ExitCode
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.config.folders import folders_of_environment
from turnwright.config.load import Loaded
from turnwright.journal.records import Report
from turnwright.schema.errors import InputError
from turnwright.views.text import Span, line, one_line, plural


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", metavar="DIR", help="the folder of a journal (default: your own)")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """0 where everything is as it was written."""
    if not args.dir and (loaded := loaded_config(args, workspace_of(args.cwd))).settings.journal.url:
        return _told(asyncio.run(_verified(loaded)), args.json)
    from turnwright.journal.verify import verify

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
    return _told(verify(folder), args.json)


async def _verified(loaded: Loaded) -> Report:
    async with opened_journal(loaded, label="verify", read_only=True) as journal:
        return await journal.verify()


def _told(report: Report, as_json: bool) -> int:
    if as_json:
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
                    f"{plural(report.blobs, 'payload')}, {plural(report.pages, 'page')} of {one_line(report.folder)}",
                )
            ]
        )
    return ExitCode.DONE if report.clean else ExitCode.ERROR
