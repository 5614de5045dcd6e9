"""`turnwright demo`: a whole run in half a minute, with nothing but this machine."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from turnwright.app.demo import TASK, demo_model, make_project, project_diff
from turnwright.app.engine import open_engine
from turnwright.app.models import DEMO
from turnwright.app.turns import first_turn, opening
from turnwright.cli import event_loop
from turnwright.cli.options import loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.cli.watching import kept_run_folder, shown_turn
from turnwright.schema.errors import InputError, SandboxError
from turnwright.schema.facts import Recorded
from turnwright.views.fold import folded
from turnwright.views.text import Span, line, safe
from turnwright.views.timeline import TimelineState, fold_timeline, timeline
from turnwright.views.trace import trace_lines


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", metavar="DIR", help="make the project in this folder (default: a temporary one)")
    # Its project, its model and so its commands are its own: nobody needs to be asked about them.
    parser.set_defaults(config=None, autonomy=4)


def run(args: argparse.Namespace) -> int:
    folder = _kept(Path(args.keep).absolute()) if args.keep else Path(tempfile.mkdtemp(prefix="turnwright-demo-"))
    make_project(folder)
    try:
        return _shown(args, folder)
    except SandboxError as none:
        if loaded_config(args, folder).settings.machine.require_sandbox:
            raise
        print(f"{none.args[0]} The demo's few commands run with your own rights.", file=sys.stderr)
        args.sandbox = "off"
        return _shown(args, folder)


def _shown(args: argparse.Namespace, folder: Path) -> int:
    loaded = loaded_config(args, folder)

    async def main() -> int:
        async with (
            open_engine(loaded, label="demo") as engine,
            engine.session(folder, model=demo_model(), mcp=False) as session,
            first_turn(session, TASK, opening(loaded.settings, folder, DEMO)) as running,
        ):
            shown = await shown_turn(running, engine, "text")
            diff = project_diff(folder)
            run_folder = await kept_run_folder(running.conversation_id, engine, diff.encode())
            facts = await engine.journal.since(running.conversation_id)
        _tell(Terminal(sys.stdout), diff, facts, run_folder)
        return shown.exit_code

    return event_loop.run(main())


def _kept(folder: Path) -> Path:
    """A new folder or an empty one: the project's files must not take the place of the user's."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        full = any(folder.iterdir())
    except OSError as bad:
        raise InputError(
            f"The folder {folder} cannot be made: {bad.strerror}.", remedy="Name another folder with --keep."
        ) from bad
    if full:
        raise InputError(f"The folder {folder} is not empty.", remedy="Name a new or an empty folder with --keep.")
    return folder


def _tell(terminal: Terminal, diff: str, facts: list[Recorded], run_folder: Path | None) -> None:
    conversation_id = facts[0].conversation_id
    terminal.lines([line(), line(Span("What changed", "heading"))])
    for each in diff.splitlines():
        style = "good" if each.startswith("+") else "bad" if each.startswith("-") else "plain"
        terminal.lines([line(Span(safe(each), style))])  # type: ignore[arg-type]
    terminal.lines([line(), line(Span("Where the time went", "heading"))])
    terminal.lines(trace_lines(timeline(folded(fold_timeline, TimelineState(), facts)), terminal.columns))
    terminal.lines(
        [
            line(),
            line(Span("Go on from here", "heading")),
            line(f"  read it      turnwright show {conversation_id}"),
            line(f"  trace it     turnwright trace {conversation_id}"),
            line(f"  after a kill turnwright resume {conversation_id} --continue"),
            line(f"  run folder   {run_folder or 'not written'}"),
        ]
    )
