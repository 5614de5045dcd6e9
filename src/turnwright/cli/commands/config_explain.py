"""`turnwright config explain`: every setting, its value and where it came from."""

from __future__ import annotations

import argparse
import sys

import msgspec

from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, loaded_config
from turnwright.cli.parser import nearest
from turnwright.cli.terminal import Terminal
from turnwright.config.explain import Explained, explain
from turnwright.schema.errors import InputError
from turnwright.views.text import Line, Span, line, safe


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", nargs="?", help="only this setting, or those below it: loop.limits")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))
    rows = [row for row in explain(loaded) if _asked_for(row.key, args.key)]
    if not rows:
        known = [row.key for row in explain(loaded)]
        known += [".".join(key.split(".")[:depth]) for key in known for depth in range(1, key.count(".") + 1)]
        raise InputError(
            f"There is no setting {args.key}.",
            remedy=nearest(args.key, dict.fromkeys(known), "turnwright config explain"),
        )
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(rows) + b"\n")
        return 0
    terminal = Terminal(sys.stdout)
    widest = max(len(row.key) for row in rows)
    terminal.lines(_line(row, widest) for row in rows)
    read = ", ".join(str(path) for path in loaded.files) or "none"
    terminal.lines([line(Span(f"files read: {read}", "dim"))])
    return 0


def _asked_for(key: str, wanted: str | None) -> bool:
    return wanted is None or key == wanted or key.startswith(f"{wanted}.")


def _line(row: Explained, widest: int) -> Line:
    value = safe(msgspec.json.encode(row.value).decode())
    where = safe(row.where) or row.layer
    return line(Span(row.key.ljust(widest)), f"  {value}  ", Span(where, "dim" if row.layer == "default" else "good"))
