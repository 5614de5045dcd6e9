"""`turnwright stop`: end a running turn, as Ctrl-C does where it runs."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from turnwright.app.speaking import stop
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_conversation, add_json_option, loaded_config


def add(parser: argparse.ArgumentParser) -> None:
    add_conversation(parser)
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Returns when the end of the turn is on record."""
    conversation_id, reason = asyncio.run(stop(loaded_config(args, workspace_of(args.cwd)), args.conversation))
    if args.json:
        told = {"conversation_id": conversation_id, "reason": reason or None}
        sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
    elif reason:
        print(f"The turn of {conversation_id} has ended: {reason}.")
    else:
        print(f"No turn of {conversation_id} is running just now.")
    return 0
