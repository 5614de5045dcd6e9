"""`turnwright fork`: the same beginning, another way on."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec

from turnwright.app.continuing import continued
from turnwright.app.engine import make_private, open_engine
from turnwright.app.forking import Forked, fork
from turnwright.app.journals import opened_journal
from turnwright.app.reading import named_conversation
from turnwright.app.turns import carried_on, next_turn
from turnwright.cli import event_loop
from turnwright.cli.faces import questions_of
from turnwright.cli.given import task_of, workspace_of
from turnwright.cli.options import (
    add_config_options,
    add_json_option,
    add_model_options,
    add_point,
    add_set_option,
    add_turn_options,
    assigned_of,
    loaded_config,
)
from turnwright.cli.points import point_named
from turnwright.cli.terminal import Terminal
from turnwright.cli.watching import watched
from turnwright.config.load import Loaded
from turnwright.views.text import Line, Span, line, one_line


def add(parser: argparse.ArgumentParser) -> None:
    add_point(parser)
    parser.add_argument("--prompt", metavar="TASK", help="go on from there with this task")
    parser.add_argument(
        "--continue", dest="carry_on", action="store_true", help="go on with the turn that is open there"
    )
    add_model_options(parser)
    add_set_option(parser)
    add_config_options(parser)
    add_turn_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))
    task = task_of(args.prompt) if args.prompt is not None else ""
    forked = asyncio.run(forked_at(args, loaded, args.conversation))
    if task or args.carry_on:
        return event_loop.run(_gone_on(args, loaded, forked, task))
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(forked) + b"\n")
    else:
        Terminal(sys.stdout).lines(_said(forked))
    return 0


async def forked_at(args: argparse.Namespace, loaded: Loaded, name: str) -> Forked:
    """Says where it was cut, if that is not where it was asked for."""
    point = point_named(name)
    make_private(loaded.folders.data)
    async with opened_journal(loaded, label="fork") as journal:
        forked = await fork(
            journal,
            await named_conversation(journal, point.name),
            point.seq,
            loaded=loaded,
            model_named=args.model is not None,
            assigned=assigned_of(args),
            workspace=None if args.cwd is None else workspace_of(args.cwd),
        )
    if forked.at != forked.asked and args.output == "text":
        said = f"{forked.parent}:{forked.asked} lies within a step; it was cut back to {forked.at}, before that step"
        Terminal(sys.stderr).lines([line(Span(said, "warn"))])
    return forked


async def _gone_on(args: argparse.Namespace, loaded: Loaded, forked: Forked, task: str) -> int:
    """With the turn that is open at the fork, or with a new one."""
    taken_up = await continued(loaded, forked.conversation_id)
    async with open_engine(taken_up.loaded, label="fork") as engine:
        questions = questions_of(args, engine)
        child = forked.conversation_id
        async with (
            engine.session(Path(forked.workspace), ask=questions, mode=args.mode) as session,
            next_turn(session, child, task) if task else carried_on(session, child) as running,
        ):
            return await watched(running, engine, args.output, questions, None, taken_up.opened_at)


def _said(forked: Forked) -> list[Line]:
    lines = [
        line(
            Span(forked.conversation_id, "heading"),
            f" shares {forked.parent} up to {forked.at}, with {one_line(forked.model)} in {one_line(forked.workspace)}",
        )
    ]
    if forked.in_turn:
        lines.append(line(f"Carry on with: turnwright resume {forked.conversation_id} --continue"))
    lines.append(line(f"Say what is next: turnwright run --resume {forked.conversation_id} TASK"))
    return lines
