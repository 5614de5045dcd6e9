"""`turnwright steer`: say something to a running turn, from anywhere."""

from __future__ import annotations

import argparse
import asyncio

from turnwright.app.speaking import speak
from turnwright.cli.given import task_of, workspace_of
from turnwright.cli.options import add_config_options, add_conversation, add_json_option, loaded_config
from turnwright.cli.telling import tell_spoken


def add(parser: argparse.ArgumentParser) -> None:
    add_conversation(parser)
    parser.add_argument("text", nargs="?", help="what the model is to hear; - reads it from stdin")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))
    spoken = asyncio.run(speak(loaded, args.conversation, task_of(args.text), "steer"))
    tell_spoken(spoken, "It is delivered after the current tools of the turn.", as_json=args.json)
    return 0
