"""`turnwright undo`: files and conversation as they were before a step."""

from __future__ import annotations

import argparse
import asyncio
import sys

from turnwright.app.undoing import Asked, forget, undo
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, loaded_config
from turnwright.cli.points import Point, point_named
from turnwright.cli.telling import tell_undone
from turnwright.schema.errors import UsageError


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "point",
        metavar="ID[:SEQ]",
        nargs="?",
        help="take back everything after this fact; without SEQ the last step that changed something; "
        "without ID that of the newest conversation in this folder",
    )
    parser.add_argument("paths", metavar="PATH", nargs="*", help="these files or folders alone; the conversation stays")
    add_undo_options(parser)
    parser.add_argument("--files-only", action="store_true", help="the conversation stays as it is, and is told")
    parser.add_argument("--forget", action="store_true", help="leave the files as an interrupted undo left them")


def add_undo_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--force", action="store_true", help="also where somebody has changed a file since")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.cwd)
    loaded = loaded_config(args, workspace)
    if args.forget:
        if args.point is not None:
            raise UsageError("--forget takes no conversation.", remedy="Name the folder with --cwd.")
        there = forget(loaded, workspace)
        said = "the files stay as they are" if there else "no undo was interrupted there"
        print(f"{workspace}: {said}", file=sys.stderr)
        return 0
    point = point_named(args.point) if args.point is not None else Point("")
    asked = Asked(
        name=point.name or None,
        seq=point.seq,
        paths=tuple(_relative(path) for path in args.paths),
        files_only=args.files_only,
        dry_run=args.dry_run,
        force=args.force,
    )
    tell_undone(asyncio.run(undo(loaded, workspace, asked, elsewhere=args.cwd is not None)), as_json=args.json)
    return 0


def _relative(path: str) -> str:
    """As the workspace names it."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts or not parts:
        raise UsageError(f"{path!r} is not a path in the workspace.", remedy="Name it from the workspace on: src/a.py")
    return "/".join(parts)
