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
from turnwright.cli.points import Point, facts_to, pages_to, point_named
from turnwright.cli.terminal import Terminal
from turnwright.journal.port import Journal
from turnwright.schema.facts import encode_line
from turnwright.schema.messages import Message
from turnwright.views.fold import folded
from turnwright.views.messages import message_lines
from turnwright.views.show import show_lines
from turnwright.views.transcript import (
    AnyEntry,
    Call,
    Replied,
    Resulted,
    Transcript,
    entries,
    fold_transcript,
    settled_so_far,
)
from turnwright.views.wording import EVERYTHING, SHORTENED, Detail


def add(parser: argparse.ArgumentParser) -> None:
    add_point(parser)
    parser.add_argument("--full", action="store_true", help="nothing shortened, reasoning included")
    parser.add_argument("--as-model", action="store_true", help="what the model is shown of it, after compactions")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))
    point = point_named(args.conversation)

    async def main() -> int:
        async with open_for_reading(loaded) as journal:
            if args.as_model:
                facts = await facts_to(journal, point)
                blobs = await blobs_of(journal, facts)
                _show_to_model(shown_to_model(facts, blobs.get), args.json)
            elif args.json:
                async for page in pages_to(journal, point):
                    sys.stdout.buffer.writelines(encode_line(recorded) + b"\n" for recorded in page)
                    sys.stdout.buffer.flush()
            else:
                await _show(journal, point, EVERYTHING if args.full else SHORTENED)
        return 0

    return asyncio.run(main())


async def _show(journal: Journal, point: Point, detail: Detail) -> None:
    """As it is read: the first screen is there before the last fact is, and no more is held than what still changes."""
    terminal = Terminal(sys.stdout)
    state = Transcript()

    async def told(shown: Sequence[AnyEntry]) -> None:
        blobs = {sha256: await journal.blob(sha256) for sha256 in _payloads(shown)}
        terminal.lines(show_lines(shown, detail, blobs.get, terminal.columns))

    async for page in pages_to(journal, point):
        settled, state = settled_so_far(folded(fold_transcript, state, page))
        await told(settled)
    await told(list(entries(state)))


def _payloads(shown: Sequence[AnyEntry]) -> list[str]:
    calls: list[Call] = []
    for entry in shown:
        match entry:
            case Replied():
                calls += entry.calls
            case Resulted():
                calls.append(entry.call)
            case _:
                pass
    return [call.output_blob.sha256 for call in calls if call.output_blob is not None]


def _show_to_model(messages: Sequence[Message], as_json: bool) -> None:
    if as_json:
        for message in messages:
            sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
        return
    terminal = Terminal(sys.stdout)
    terminal.lines(message_lines(messages, terminal.columns))
