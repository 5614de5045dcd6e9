"""`turnwright import`: conversations come in as files, Turnwright's own or another agent's."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from turnwright.app.importing.files import FILE_FORMATS, Imported, imported
from turnwright.app.journals import opened_journal
from turnwright.cli.given import read_given, workspace_of
from turnwright.cli.options import add_config_options, add_json_option, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.schema.errors import InputError
from turnwright.views.text import Line, Span, line, one_line, plural


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="made by export --format turnwright, or a session of Claude Code or codex; - is stdin",
    )
    parser.add_argument("--format", choices=FILE_FORMATS, help="what the files are (default: found in them)")
    parser.add_argument("--as-new", action="store_true", help="under a new id, even where it came in before")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))

    async def main() -> int:
        terminal = Terminal(sys.stdout)
        async with opened_journal(loaded, label="import") as journal:
            for name in args.files:
                content = read_given(name)
                try:
                    done = await imported(journal, content, named=args.format, as_new=args.as_new)
                except InputError as bad:
                    where = "stdin" if name == "-" else name
                    raise InputError(f"{where}: {bad.args[0]}", remedy=bad.remedy) from bad
                if args.json:
                    sys.stdout.buffer.write(msgspec.json.encode(done) + b"\n")
                else:
                    terminal.lines(_lines(done))
        return 0

    return asyncio.run(main())


def _lines(done: Imported) -> list[Line]:
    what = "already there" if done.already_there else f"{plural(done.facts, 'fact')} from {done.format}"
    said = [line(Span(done.conversation_id, "heading"), f"  {what}, {plural(done.lines, 'line')}")]
    if done.left_out:
        kinds = ", ".join(f"{count} {one_line(kind)}" for kind, count in sorted(done.left_out.items()))
        said.append(line(Span(f"  not retold, but kept with the file: {kinds}", "dim")))
    return said
