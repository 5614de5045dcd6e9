"""`turnwright resume`: what was in flight when a process died; with `--continue`, carry on."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from turnwright.app.continuing import Continued, continued, with_caps_kept
from turnwright.app.engine import open_engine
from turnwright.app.going_on import bought_by_going_on
from turnwright.app.turns import carried_on
from turnwright.cli import event_loop
from turnwright.cli.detaching import Away, detached
from turnwright.cli.exit_codes import of_reason
from turnwright.cli.faces import face_of, questions_of
from turnwright.cli.given import workspace_of
from turnwright.cli.options import (
    add_config_options,
    add_conversation,
    add_detach_option,
    add_json_option,
    add_model_options,
    add_trust_option,
    add_turn_options,
    loaded_config,
)
from turnwright.cli.output import Output
from turnwright.cli.terminal import Terminal
from turnwright.cli.trusting import settle_trust
from turnwright.cli.watching import kept_run_folder, watched
from turnwright.kernel.prefix import BoughtAgain
from turnwright.schema.errors import UsageError
from turnwright.schema.facts import Recorded
from turnwright.views.fold import folded
from turnwright.views.in_flight import fold_in_flight, in_flight_lines
from turnwright.views.result import Result, ResultState, fold_result
from turnwright.views.sessions import Session, fold_session
from turnwright.views.text import Span, line, one_line


def add(parser: argparse.ArgumentParser) -> None:
    add_conversation(parser)
    parser.add_argument("--continue", dest="carry_on", action="store_true", help="carry on from the last durable step")
    add_model_options(parser)
    add_config_options(parser)
    add_turn_options(parser)
    add_detach_option(parser)
    add_trust_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    if args.detach and not args.carry_on:
        raise UsageError("turnwright resume: --detach needs --continue.", remedy="Without it nothing is run.")
    here = workspace_of(args.cwd)
    if args.carry_on:
        settle_trust(args, here)
    loaded = loaded_config(args, here)
    taken_up = asyncio.run(continued(loaded, args.conversation))
    if not args.carry_on:
        return _looked_at(args, taken_up)
    if args.cwd is None and taken_up.workspace != here:
        settle_trust(args, taken_up.workspace)
    if (result := _done(taken_up.facts)) is not None:
        return event_loop.run(_told_again(taken_up, result, args.output))

    def turn(away: Away | None = None) -> int:
        return event_loop.run(_carried_on(args, taken_up, away))

    return detached(args, loaded, turn) if args.detach else turn()


async def _carried_on(args: argparse.Namespace, taken_up: Continued, away: Away | None) -> int:
    workspace = taken_up.workspace if args.cwd is None else workspace_of(args.cwd)
    async with open_engine(with_caps_kept(taken_up), label="resume") as engine:
        questions = questions_of(args, engine)
        async with (
            engine.session(workspace, ask=questions, mode=args.mode, errand=taken_up.errand) as session,
            carried_on(session, taken_up.conversation_id) as running,
        ):
            return await watched(running, engine, args.output, questions, away, taken_up.opened_at)


def _looked_at(args: argparse.Namespace, taken_up: Continued) -> int:
    code = _tell(taken_up, args.json)
    if not args.json and taken_up.held_by is None and _done(taken_up.facts) is None:
        workspace = taken_up.workspace if args.cwd is None else workspace_of(args.cwd)
        _tell_price(asyncio.run(bought_by_going_on(taken_up, workspace, args.mode)))
    return code


def _tell_price(bought: BoughtAgain | None) -> None:
    if bought is not None:
        Terminal(sys.stdout).lines([line(Span(f"To carry on: {bought.text}.", "warn"))])


def _done(facts: list[Recorded]) -> Result | None:
    """The result of the last turn, where nothing is left to carry on: whoever resumes after a crash cannot know that
    the turn had ended, and wants its answer."""
    at_a_glance = folded(fold_session, Session(), facts)
    if at_a_glance.state != "ended" or at_a_glance.reason != "stop" or at_a_glance.waiting:
        return None
    return folded(fold_result, ResultState(), facts).result


async def _told_again(taken_up: Continued, result: Result, output: Output) -> int:
    async with open_engine(taken_up.loaded, label="resume") as engine:
        with face_of(output, engine) as face:
            face.ended(result)
        await kept_run_folder(taken_up.conversation_id, engine)
    return of_reason(result.reason)


def _tell(taken_up: Continued, as_json: bool) -> int:
    """What runs in a process that lives was not interrupted."""
    left = folded(fold_in_flight, None, taken_up.facts) if taken_up.held_by is None else None
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(left) + b"\n")
        return 0
    terminal = Terminal(sys.stdout)
    if (holder := taken_up.held_by) is not None:
        label = f" ({one_line(holder.label)})" if holder.label else ""
        where = f"process {holder.pid} on {one_line(holder.host)}{label}"
        terminal.lines([line(Span(taken_up.conversation_id, "heading"), f" is running in {where}.")])
        terminal.lines([line(f"Watch it with: turnwright follow {taken_up.conversation_id}")])
        return 0
    if left is None:
        terminal.lines([line(Span("Nothing was in flight: the last turn has its end.", "good"))])
        return 0
    terminal.lines(in_flight_lines(left, terminal.columns))
    terminal.lines([line(f"Carry on with: turnwright resume {left.conversation_id} --continue")])
    return 0
