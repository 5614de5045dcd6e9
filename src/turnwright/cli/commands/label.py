"""`turnwright label`: a title, tags, a place in the archive."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from turnwright.app.journals import opened_journal
from turnwright.app.labelling import label
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_conversation, add_json_option, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.views.sessions import Session, session_lines


def add(parser: argparse.ArgumentParser) -> None:
    add_conversation(parser)
    parser.add_argument("--title", metavar="WORDS", help="what sessions shows of it")
    parser.add_argument("--tag", metavar="TAG", action="append", default=[], help="put a tag on; may be repeated")
    parser.add_argument("--untag", metavar="TAG", action="append", default=[], help="take a tag off; may be repeated")
    archive = parser.add_mutually_exclusive_group()
    archive.add_argument("--archive", dest="archived", action="store_true", default=None, help="out of sight")
    archive.add_argument("--unarchive", dest="archived", action="store_false", default=None, help="back into sight")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Without options it shows what the labels are."""
    loaded = loaded_config(args, workspace_of(args.cwd))
    changes = args.title is not None or args.tag or args.untag or args.archived is not None

    async def main() -> Session:
        async with opened_journal(loaded, label="label", read_only=not changes) as journal:
            return await label(
                journal, args.conversation, title=args.title, tags=args.tag, untags=args.untag, archived=args.archived
            )

    session = asyncio.run(main())
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(session) + b"\n")
    else:
        terminal = Terminal(sys.stdout)
        terminal.lines(session_lines([session], columns=terminal.columns))
    return 0
