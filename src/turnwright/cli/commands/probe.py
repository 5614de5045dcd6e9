"""`turnwright probe`: what a route can do, found out by doing it."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import msgspec

from turnwright.app.probing import probe
from turnwright.app.route_profiles import Finding
from turnwright.cli.exit_codes import ExitCode
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, add_model_options, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.schema.errors import UsageError
from turnwright.views.text import Span, Style, line, one_line

STYLES: dict[str, Style] = {"works": "good", "fails": "bad", "unknown": "dim"}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("route", nargs="?", metavar="ROUTE", help="provider/model (default: the configured one)")
    add_model_options(parser)
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    if args.route and args.model:
        raise UsageError("Give the route once: as ROUTE or with --model.")
    args.model = args.route or args.model
    loaded = loaded_config(args, workspace_of(args.cwd))
    terminal = Terminal(sys.stdout)

    async def main(workspace: Path) -> int:
        found: dict[str, Finding] = {}
        async for name, finding in probe(loaded, workspace):
            found[name] = finding
            if args.json:
                sys.stdout.buffer.write(msgspec.json.encode({"capability": name, "finding": finding}) + b"\n")
            else:
                shown = Span(f"{finding.shown:<8}", STYLES[finding.shown])
                terminal.lines([line(f"{name:<20}", shown, f" {one_line(finding.evidence)}")])
        texts = [found["streamed_text"].shown, found["whole_text"].shown]
        return ExitCode.DONE if "works" in texts else ExitCode.UNAVAILABLE

    # An empty workspace: a probe must not be able to do anything to the user's.
    with tempfile.TemporaryDirectory(prefix="turnwright-probe-") as empty:
        return asyncio.run(main(Path(empty)))
