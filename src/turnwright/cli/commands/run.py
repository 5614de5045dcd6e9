"""`turnwright run`: a task, from the first fact to the last."""

from __future__ import annotations

import argparse
from contextlib import AbstractAsyncContextManager

from turnwright.app.engine import Engine, open_engine
from turnwright.app.running import Running
from turnwright.app.turns import first_turn, next_turn
from turnwright.cli import event_loop
from turnwright.cli.faces import ask_of
from turnwright.cli.given import task_of, workspace_of
from turnwright.cli.options import add_config_options, add_model_options, add_turn_options, loaded_config
from turnwright.cli.watching import watched
from turnwright.session.conversation import Session


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", nargs="?", help="what is to be done; - reads it from stdin")
    parser.add_argument("--resume", metavar="ID", help="the task is the next turn of this conversation")
    add_model_options(parser)
    add_config_options(parser)
    add_turn_options(parser)


def run(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.cwd)
    task = task_of(args.task)
    loaded = loaded_config(args, workspace)

    async def main() -> int:
        async with (
            open_engine(loaded, label="run") as engine,
            engine.session(workspace, ask=ask_of(args), mode=args.mode) as session,
            _turn(engine, session) as running,
        ):
            return await watched(running, engine, args.output)

    def _turn(engine: Engine, session: Session) -> AbstractAsyncContextManager[Running]:
        if args.resume:
            return next_turn(session, args.resume, task)
        return first_turn(session, task, workspace=str(workspace), model=engine.loaded.settings.model)

    return event_loop.run(main())
