"""`turnwright queue`: say something that opens the next turn; without words, list what waits."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from turnwright.app.speaking import speak, waiting_letters
from turnwright.cli.given import task_of, workspace_of
from turnwright.cli.options import add_config_options, add_conversation, add_json_option, loaded_config
from turnwright.cli.telling import tell_spoken
from turnwright.cli.terminal import Terminal
from turnwright.config.load import Loaded
from turnwright.views.text import Span, line, one_line


def add(parser: argparse.ArgumentParser) -> None:
    add_conversation(parser)
    parser.add_argument("text", nargs="?", help="what the next turn is to do; - reads it from stdin")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))
    if args.text is None:
        return _list(loaded, args.conversation, args.json)
    spoken = asyncio.run(speak(loaded, args.conversation, task_of(args.text), "queue"))
    tell_spoken(spoken, "It opens the next turn.", as_json=args.json)
    return 0


def _list(loaded: Loaded, name: str, as_json: bool) -> int:
    letters = asyncio.run(waiting_letters(loaded, name))
    if as_json:
        for letter in letters:
            sys.stdout.buffer.write(msgspec.json.encode(letter) + b"\n")
        return 0
    lines = [line(Span(each.inbox_id, "heading"), f"  {each.kind}  {one_line(each.text)}") for each in letters]
    Terminal(sys.stdout).lines(lines or [line("Nothing waits.")])
    return 0
