"""`turnwright resume`: what was in flight when a process died; with `--continue`, carry on."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from turnwright.app.engine import open_engine
from turnwright.app.reading import facts_of, named_conversation, open_for_reading
from turnwright.app.turns import carried_on
from turnwright.cli import event_loop
from turnwright.cli.faces import ask_of
from turnwright.cli.given import workspace_of
from turnwright.cli.options import (
    add_config_options,
    add_conversation,
    add_json_option,
    add_model_options,
    add_turn_options,
    loaded_config,
)
from turnwright.cli.terminal import Terminal
from turnwright.cli.watching import watched
from turnwright.config.load import Loaded
from turnwright.schema.facts import ConversationOpened, Recorded
from turnwright.views.fold import folded
from turnwright.views.in_flight import fold_in_flight, in_flight_lines
from turnwright.views.text import Span, line


def add(parser: argparse.ArgumentParser) -> None:
    add_conversation(parser)
    parser.add_argument("--continue", dest="carry_on", action="store_true", help="carry on from the last durable step")
    add_model_options(parser)
    add_config_options(parser)
    add_turn_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))

    async def main() -> int:
        async with open_for_reading(loaded) as journal:
            conversation_id = await named_conversation(journal, args.conversation)
            facts = await facts_of(journal, conversation_id)
        if not args.carry_on:
            return _tell(facts, args.json)
        opened = facts[0].fact
        assert isinstance(opened, ConversationOpened), "a conversation begins with conversation.opened"
        workspace = Path(opened.workspace) if args.cwd is None else workspace_of(args.cwd)
        async with (
            open_engine(_with_model(loaded, opened), label="resume") as engine,
            engine.session(workspace, ask=ask_of(args), mode=args.mode) as session,
            carried_on(session, conversation_id) as running,
        ):
            return await watched(running, engine, args.output)

    return event_loop.run(main())


def _with_model(loaded: Loaded, opened: ConversationOpened) -> Loaded:
    """The model that the conversation began with, unless one was named now."""
    named_now = ("model",) in loaded.said and loaded.said[("model",)].place.layer == "flag"
    if named_now or not opened.model:
        return loaded
    return msgspec.structs.replace(loaded, settings=msgspec.structs.replace(loaded.settings, model=opened.model))


def _tell(facts: list[Recorded], as_json: bool) -> int:
    left = folded(fold_in_flight, None, facts)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(left) + b"\n")
        return 0
    terminal = Terminal(sys.stdout)
    if left is None:
        terminal.lines([line(Span("Nothing was in flight: the last turn has its end.", "good"))])
        return 0
    terminal.lines(in_flight_lines(left, terminal.columns))
    terminal.lines([line(f"Carry on with: turnwright resume {left.conversation_id} --continue")])
    return 0
