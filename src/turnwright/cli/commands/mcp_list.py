"""`turnwright mcp list`: the MCP servers of a workspace, whether they start, and what tools they have."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator

import msgspec

from turnwright.app.mcp_looking import ServerRow, looked_at
from turnwright.cli.exit_codes import ExitCode
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.views.text import Line, Span, Style, line, one_line

_STYLES: dict[str, Style] = {"ready": "good", "failed": "bad", "untrusted": "warn"}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", nargs="?", default="", metavar="SERVER", help="this one, with its tools' whole texts")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """0 where each of them is ready."""
    workspace = workspace_of(args.cwd)
    rows = asyncio.run(looked_at(loaded_config(args, workspace), workspace, args.server))
    if args.json:
        for row in rows:
            sys.stdout.buffer.write(msgspec.json.encode(row) + b"\n")
    elif rows:
        Terminal(sys.stdout).lines(each for row in rows for each in _lines(row, whole=bool(args.server)))
    else:
        print("No MCP server is configured: set mcp.servers in config.yaml, or bring a .mcp.json.")
    return ExitCode.DONE if all(row.state == "ready" for row in rows) else ExitCode.ERROR


def _lines(row: ServerRow, *, whole: bool) -> Iterator[Line]:
    said = row.about if row.state == "ready" else row.why
    state = Span(row.state, _STYLES.get(row.state, "warn"))
    yield line(Span(one_line(row.name), "heading"), "  ", state, f"  {one_line(said)}")
    yield line(Span(f"  {one_line(row.reached)}  from {one_line(row.source)}  sha256 {row.sha256[:16]}", "dim"))
    for tool in row.tools:
        held = Span("  changed, so not offered", "bad") if tool.held else ""
        reads = ", reads" if tool.reads else ""
        yield line(f"  {tool.name}", Span(f"  sha256 {tool.sha256[:16]}{reads}", "dim"), held)
        for words in tool.description.splitlines() if whole else ():
            yield line(f"      {one_line(words)}")
    for why in row.unfit:
        yield line(Span(f"  not usable: {one_line(why)}", "warn"))
