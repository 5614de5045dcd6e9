"""`turnwright compact`: condense what lies behind in a conversation, so that its next turns cost less."""

from __future__ import annotations

import argparse
import sys

from turnwright.app.continuing import continued
from turnwright.app.engine import open_engine
from turnwright.app.turns import taken_up
from turnwright.cli import event_loop
from turnwright.cli.exit_codes import ExitCode
from turnwright.cli.given import workspace_of
from turnwright.cli.options import (
    add_config_options,
    add_conversation,
    add_json_option,
    add_model_options,
    loaded_config,
)
from turnwright.cli.terminal import Terminal
from turnwright.schema.facts import ContextCompacted, encode_body
from turnwright.views.text import count, line


def add(parser: argparse.ArgumentParser) -> None:
    add_conversation(parser)
    add_model_options(parser)
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))

    async def main() -> int:
        found = await continued(loaded, args.conversation)
        workspace = found.workspace if args.cwd is None else workspace_of(args.cwd)
        async with (
            open_engine(found.loaded, label="compact") as engine,
            engine.session(workspace, errand=found.errand) as session,
            taken_up(session, found.conversation_id) as conversation,
        ):
            with event_loop.stopping(conversation.stop):
                made = await conversation.compact()
        _tell(made, args.json)
        return ExitCode.DONE

    return event_loop.run(main())


def _tell(made: ContextCompacted, as_json: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(encode_body(made) + b"\n")
        return
    Terminal(sys.stdout).lines([line(f"condensed: {count(made.tokens_before)} → {count(made.tokens_after)} tokens")])
