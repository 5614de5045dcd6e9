"""`turnwright mcp approve`: the texts of a server's tools have changed, you have read them, and they may be offered."""

from __future__ import annotations

import argparse
import asyncio

from turnwright.app.mcp_looking import agreed
from turnwright.cli.exit_codes import ExitCode
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, loaded_config
from turnwright.views.text import one_line


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", metavar="SERVER", help="as mcp list names it")
    parser.add_argument("tools", nargs="*", metavar="TOOL", help="only these, by their server's names for them")
    add_config_options(parser)


def run(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.cwd)
    names = asyncio.run(agreed(loaded_config(args, workspace), workspace, args.server, args.tools))
    if names:
        print(f"Offered again, as they are now: {one_line(', '.join(names))}.")
    else:
        print(f"No tool of {one_line(args.server)} has changed.")
    return ExitCode.DONE
