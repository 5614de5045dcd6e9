"""`turnwright diff`: what became of the workspace since a point, or two conversations step by step."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from turnwright.app.changed import changed
from turnwright.app.reading import open_for_reading
from turnwright.app.secrets import masker_of
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, loaded_config
from turnwright.cli.points import facts_to, point_named
from turnwright.cli.terminal import Terminal
from turnwright.config.load import Loaded
from turnwright.schema.errors import UsageError
from turnwright.views.comparison import compared, comparison_lines
from turnwright.views.file_changes import patch_lines, patch_of


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A[:SEQ]", help="a conversation, or its beginning up to a fact")
    parser.add_argument(
        "b", metavar="B[:SEQ]", nargs="?", help="another one, to compare with; without it the files since A are shown"
    )
    parser.add_argument("--step", action="store_true", help="only what the step did to files in which A:SEQ lies")
    parser.add_argument("--names", action="store_true", help="the paths of the files alone")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """0 whether there are differences or not: to differ is no failure."""
    loaded = loaded_config(args, workspace_of(args.cwd))
    if args.b is None:
        return _files(args, loaded)
    if args.step or args.names:
        raise UsageError("--step and --names are for one conversation.", remedy="Leave the other one out.")
    return asyncio.run(_conversations(args, loaded))


async def _conversations(args: argparse.Namespace, loaded: Loaded) -> int:
    async with open_for_reading(loaded) as journal:
        a = await facts_to(journal, point_named(args.a))
        b = await facts_to(journal, point_named(args.b))
    found = compared(a, b)
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    else:
        Terminal(sys.stdout).lines(comparison_lines(found))
    return 0


def _files(args: argparse.Namespace, loaded: Loaded) -> int:
    point = point_named(args.a)
    elsewhere = None if args.cwd is None else workspace_of(args.cwd)
    found = asyncio.run(changed(loaded, point.name, point.seq, step=args.step, workspace=elsewhere))
    masker = masker_of(loaded)
    if args.json:
        sys.stdout.buffer.write(masker.encoded(msgspec.json.encode(found)) + b"\n")
    elif args.names:
        for change in found.files:
            print(change.path)
    else:
        print(f"{found.conversation}: {len(found.files)} paths changed {found.what}", file=sys.stderr)
        if sys.stdout.isatty():
            Terminal(sys.stdout).lines(patch_lines(found.files))
        else:  # byte for byte, for whoever applies it
            for change in found.files:
                sys.stdout.buffer.writelines(f"{masker(said)}\n".encode() for said in patch_of(change))
    return 0
