"""`turnwright withdraw`: take a letter back while it waits."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from turnwright.app.speaking import withdraw
from turnwright.cli.exit_codes import ExitCode
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_conversation, add_json_option, loaded_config


def add(parser: argparse.ArgumentParser) -> None:
    add_conversation(parser)
    parser.add_argument("letter", metavar="LETTER", help="its id, as steer and queue say it")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Twice is once. What was delivered cannot be taken back, and that is an error (1)."""
    loaded = loaded_config(args, workspace_of(args.cwd))
    withdrawn = asyncio.run(withdraw(loaded, args.conversation, args.letter))
    taken_back = withdrawn.state == "withdrawn"
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(withdrawn) + b"\n")
    elif taken_back:
        print(f"Letter {withdrawn.inbox_id} is taken back.")
    else:
        print(f"turnwright: Letter {withdrawn.inbox_id} was delivered already.", file=sys.stderr)
    return ExitCode.DONE if taken_back else ExitCode.ERROR
