"""`turnwright storage`: how much is kept of what."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator

import msgspec

from turnwright.app.reading import open_for_reading
from turnwright.app.storage import Kept, kept_in
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, count, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.journal.stored import Stored
from turnwright.views.text import Line, Span, clip, line, one_line, pad, plural, right, size, when


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", metavar="N", type=count, default=20, help="the largest so many (default: 20)")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))

    async def main() -> Kept:
        async with open_for_reading(loaded) as journal:
            return await kept_in(loaded, journal)

    kept = asyncio.run(main())
    if args.json:
        whole = {**msgspec.to_builtins(kept), "total_bytes": kept.total_bytes}
        sys.stdout.buffer.write(msgspec.json.encode(whole) + b"\n")
        return 0
    terminal = Terminal(sys.stdout)
    terminal.lines(_sums(kept))
    terminal.lines(_conversations(kept, args.limit, terminal.columns))
    return 0


def _sums(kept: Kept) -> Iterator[Line]:
    stored = kept.journal
    rows: list[tuple[str, int, str]] = [
        ("journal", stored.total_bytes, one_line(stored.place)),
        ("  facts", stored.fact_bytes, _facts(stored)),
        ("  payloads", stored.payload_bytes, f"{stored.payloads:,}, {size(stored.content_bytes)} before compression"),
        ("    captures", stored.capture_bytes, f"{stored.captures:,} of them"),
        ("  free", stored.free_bytes, "for what comes next"),
        ("  index", stored.search_bytes, "of words, for search"),
        ("runs", kept.runs_bytes, f"{plural(kept.runs, 'folder')}, made from the journal"),
        ("versions", kept.versions_bytes, "of workspaces, for undo; versions.bytes_max bounds them"),
        ("spool", kept.spool_bytes, "long output of commands"),
        ("total", kept.total_bytes, ""),
    ]
    for name, number, about in rows:
        yield line(Span(pad(name, 13), "heading"), right(size(number), 12), Span(f"  {about}", "dim"))


def _facts(stored: Stored) -> str:
    said = f"{plural(stored.facts, 'fact')} in {plural(len(stored.conversations), 'conversation')}"
    return f"{said}; {stored.unreadable:,} cannot be read: turnwright journal verify" if stored.unreadable else said


def _conversations(kept: Kept, limit: int, columns: int) -> Iterator[Line]:
    largest = sorted(kept.journal.conversations, key=lambda each: -(each.fact_bytes + each.payload_bytes))[:limit]
    if largest:
        head = f"{pad('id', 22)}  {pad('last', 20)} {right('facts', 11)} {right('payloads', 11)} {right('runs', 11)}"
        yield line(Span(clip(f"{head}  title", columns), "dim"))
    for each in largest:
        numbers = (each.fact_bytes, each.payload_bytes, kept.runs_of.get(each.id, 0))
        shown = " ".join(right(size(number), 11) for number in numbers)
        title = one_line(each.title) or "(untitled)"
        yield line(clip(f"{pad(one_line(each.id), 22)}  {when(each.last_at)} {shown}  {title}", columns))
