"""`turnwright redo`: the last undo of a workspace, taken back."""

from __future__ import annotations

import argparse
import asyncio

from turnwright.app.undoing import Asked, redo
from turnwright.cli.commands.undo import add_undo_options
from turnwright.cli.given import workspace_of
from turnwright.cli.options import loaded_config
from turnwright.cli.telling import tell_undone


def add(parser: argparse.ArgumentParser) -> None:
    add_undo_options(parser)


def run(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.cwd)
    loaded = loaded_config(args, workspace)
    asked = Asked(dry_run=args.dry_run, force=args.force)
    tell_undone(asyncio.run(redo(loaded, workspace, asked)), as_json=args.json, again=True)
    return 0
