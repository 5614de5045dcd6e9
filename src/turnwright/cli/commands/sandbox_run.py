"""`turnwright sandbox run`: a command, confined exactly as those of the tools are."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from turnwright.app.sandboxed import run_sandboxed
from turnwright.cli import event_loop
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, loaded_config
from turnwright.machine.port import Stream
from turnwright.schema.errors import UsageError


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("argv", metavar="CMD", nargs=argparse.REMAINDER, help="after --: the command and its arguments")
    parser.add_argument(
        "--level", dest="sandbox", choices=("read-only", "workspace-write", "off"), help="machine.sandbox"
    )
    parser.add_argument(
        "--tier", choices=("namespaces", "kernel-lite", "none"), help="confine by this means rather than by the best"
    )
    reach = parser.add_mutually_exclusive_group()
    reach.add_argument("--net", action="store_true", help="machine.network: open")
    reach.add_argument(
        "--net-hosts", metavar="HOST,...", help="machine.network: hosts, with these as machine.hosts; may be empty"
    )
    parser.add_argument(
        "--write", metavar="DIR", action="append", default=[], help="a further folder to write in; machine.write"
    )
    parser.add_argument(
        "--require-sandbox", action="store_true", help="leave with 44 rather than run with less than all"
    )
    add_config_options(parser)


def run(args: argparse.Namespace) -> int:
    """The command's own exit code; 128 + n where signal n ended it."""
    argv = args.argv[1:] if args.argv[:1] == ["--"] else args.argv
    if not argv:
        raise UsageError("There is no command.", remedy="Give one: turnwright sandbox run -- ls -l")
    args.write = [str(Path(folder).expanduser().absolute()) for folder in args.write]
    workspace = workspace_of(args.cwd)
    return event_loop.run(
        run_sandboxed(loaded_config(args, workspace), workspace, argv, _shown, event_loop.stopping, args.tier)
    )


def _shown(piece: bytes, stream: Stream) -> None:
    out = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
    out.write(piece)
    out.flush()
