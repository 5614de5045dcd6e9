"""`turnwright permissions rules`: the rules of each place, in the order in which they count, and how to take back those
that were answered with always."""

from __future__ import annotations

import argparse
import sys

import msgspec

from turnwright.app.always_rules import AlwaysRules
from turnwright.app.permitted_tools import permits_for
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.schema.sandbox import UNCONFINED
from turnwright.views.text import Span, line, one_line


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--forget", action="store_true", help="take back what was answered with always here")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.cwd)
    loaded = loaded_config(args, workspace)
    if args.forget:
        print(f"Forgotten: {AlwaysRules(loaded.folders.always, workspace).forget()} rules.")
        return 0
    policy = permits_for(loaded, workspace, lambda: UNCONFINED).policy()
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode([layer for layer in policy.layers if layer.rules]) + b"\n")
        return 0
    terminal = Terminal(sys.stdout)
    terminal.lines([line(f"autonomy {policy.autonomy}; of the rules below, the last that matches wins")])
    for layer in policy.layers:
        if layer.rules:
            narrows = "  (can only make things stricter)" if layer.narrows else ""
            terminal.lines([line(Span(one_line(layer.where or layer.name), "heading"), narrows)])
            terminal.lines(line(f"  {one_line(str(rule))}") for rule in layer.rules)
    return 0
