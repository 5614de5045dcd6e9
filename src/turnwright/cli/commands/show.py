"""`turnwright show`: a conversation as a person reads it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

import msgspec

from turnwright.app.model_view import shown_to_model
from turnwright.app.reading import blobs_of, open_for_reading
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, add_point, loaded_config
from turnwright.cli.points import facts_to, point_named
from turnwright.cli.terminal import Terminal
from turnwright.schema.facts import encode_line
from turnwright.schema.messages import Message
from turnwright.views.fold import folded
from turnwright.views.messages import message_lines
from turnwright.views.show import show_lines
from turnwright.views.transcript import Transcript, entries, fold_transcript
from turnwright.views.wording import EVERYTHING, SHORTENED


def add(parser: argparse.ArgumentParser) -> None:
    add_point(parser)
    parser.add_argument("--full", action="store_true", help="nothing shortened, reasoning included")
    parser.add_argument("--as-model", action="store_true", help="what the model is shown of it, after compactions")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))

    async def main() -> int:
        async with open_for_reading(loaded) as journal:
            facts = await facts_to(journal, point_named(args.conversation))
            blobs = await blobs_of(journal, facts)
        if args.as_model:
            _show_to_model(shown_to_model(facts, blobs.get), args.json)
            return 0
        if args.json:
            for recorded in facts:
                sys.stdout.buffer.write(encode_line(recorded) + b"\n")
            return 0
        terminal = Terminal(sys.stdout)
        shown = entries(folded(fold_transcript, Transcript(), facts))
        terminal.lines(show_lines(shown, EVERYTHING if args.full else SHORTENED, blobs.get, terminal.columns))
        return 0

    return asyncio.run(main())


def _show_to_model(messages: Sequence[Message], as_json: bool) -> None:
    if as_json:
        for message in messages:
            sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
        return
    terminal = Terminal(sys.stdout)
    terminal.lines(message_lines(messages, terminal.columns))
