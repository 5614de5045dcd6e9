"""`turnwright run`: a task, from the first fact to the last."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from turnwright.app.continuing import continued
from turnwright.app.engine import open_engine
from turnwright.app.turns import first_turn, next_turn, opening
from turnwright.cli import event_loop
from turnwright.cli.detaching import Away, detached
from turnwright.cli.faces import questions_of
from turnwright.cli.given import task_of, workspace_of
from turnwright.cli.options import (
    add_config_options,
    add_detach_option,
    add_model_options,
    add_set_option,
    add_trust_option,
    add_turn_options,
    assigned_of,
    loaded_config,
)
from turnwright.cli.trusting import settle_trust
from turnwright.cli.watching import watched
from turnwright.config.load import Loaded


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", nargs="?", help="what is to be done; - reads it from stdin")
    taken_up = parser.add_mutually_exclusive_group()
    taken_up.add_argument("--resume", metavar="ID", help="the task is the next turn of this conversation")
    taken_up.add_argument(
        "--continue", dest="resume", action="store_const", const="last", help="the same for the newest conversation"
    )
    taken_up.add_argument(
        "--fork", metavar="ID[:SEQ]", help="the task is the next turn of a new conversation that shares this beginning"
    )
    add_model_options(parser)
    add_set_option(parser)
    add_config_options(parser)
    add_turn_options(parser)
    add_detach_option(parser)
    add_trust_option(parser)


def run(args: argparse.Namespace) -> int:
    here = workspace_of(args.cwd)
    task = task_of(args.task)
    settle_trust(args, here)
    loaded = loaded_config(args, here)
    if args.fork:
        from turnwright.cli.commands.fork import forked_at

        args.resume = asyncio.run(forked_at(args, loaded, args.fork)).conversation_id

    def turn(away: Away | None = None) -> int:
        return event_loop.run(
            _next(args, loaded, task, away) if args.resume else _first(args, loaded, here, task, away)
        )

    return detached(args, loaded, turn) if args.detach else turn()


async def _first(args: argparse.Namespace, loaded: Loaded, workspace: Path, task: str, away: Away | None) -> int:
    if loaded.settings.providers.routing.probe_at_start:
        from turnwright.app.probing import probed_at_start

        await probed_at_start(loaded)
    async with open_engine(loaded, label="run") as engine:
        questions = questions_of(args, engine)
        async with (
            engine.session(workspace, ask=questions, mode=args.mode) as session,
            first_turn(session, task, opening(loaded.settings, workspace, assigned=assigned_of(args))) as running,
        ):
            return await watched(running, engine, args.output, questions, away)


async def _next(args: argparse.Namespace, loaded: Loaded, task: str, away: Away | None) -> int:
    taken_up = await continued(loaded, args.resume)
    workspace = taken_up.workspace if args.cwd is None else workspace_of(args.cwd)
    if workspace != workspace_of(args.cwd):
        settle_trust(args, workspace)
    async with open_engine(taken_up.loaded, label="run") as engine:
        questions = questions_of(args, engine)
        async with (
            engine.session(workspace, ask=questions, mode=args.mode, errand=taken_up.errand) as session,
            next_turn(session, taken_up.conversation_id, task) as running,
        ):
            return await watched(running, engine, args.output, questions, away, taken_up.opened_at)
