"""`turnwright mcp call`: one tool of an MCP server, called by you, outside of any conversation."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from turnwright.app.mcp_looking import called
from turnwright.cli.exit_codes import ExitCode
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, loaded_config
from turnwright.schema.errors import UsageError
from turnwright.views.text import safe


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", metavar="SERVER", help="as mcp list names it")
    parser.add_argument("tool", metavar="TOOL", help="by its server's name for it, or ours")
    parser.add_argument("arguments", nargs="?", default="{}", metavar="JSON", help="one object (default: {})")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """0 where the tool did not fail; 54 where it did."""
    try:
        arguments = msgspec.json.decode(args.arguments, type=dict)
    except msgspec.MsgspecError as bad:
        raise UsageError(f"The arguments are no JSON object: {bad}.", remedy='Example: \'{"path": "a.txt"}\'') from bad
    workspace = workspace_of(args.cwd)
    outcome = asyncio.run(called(loaded_config(args, workspace), workspace, args.server, args.tool, arguments))
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
    else:
        print(safe(outcome.output))
        for image in outcome.images:
            print(f"[{image.media_type}, {len(image.data) * 3 // 4:,} bytes]")
    return ExitCode.DONE if outcome.outcome == "ok" else ExitCode.TOOL
