"""`turnwright search`: where something was said, done or seen."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence

import msgspec

from turnwright.app.journals import has_journal
from turnwright.app.reading import named_conversation, open_for_reading
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, count, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.journal.records import Hit
from turnwright.journal.search.words import Wanted, spans, wanted
from turnwright.views.text import Line, Span, line, one_line, pad, safe, when


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="WORD", nargs="+", help='all of them; "in this order", or begin*')
    parser.add_argument("--in", dest="within", metavar="ID", help="in one conversation only")
    parser.add_argument("--limit", metavar="N", type=count, default=20, help="the newest so many (default: 20)")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """1 where nothing is found, as grep does."""
    loaded = loaded_config(args, workspace_of(args.cwd))
    query = " ".join(f'"{word}"' if " " in word and '"' not in word else word for word in args.words)
    asked = wanted(query)

    async def main() -> list[Hit]:
        if not has_journal(loaded):
            return []
        async with open_for_reading(loaded) as journal:
            within = await named_conversation(journal, args.within) if args.within else None
            return await journal.search(query, args.limit, within)

    hits = asyncio.run(main())
    if args.json:
        for hit in hits:
            sys.stdout.buffer.write(msgspec.json.encode(hit) + b"\n")
    else:
        Terminal(sys.stdout).lines(_lines(hits, asked))
    return 0 if hits else 1


def _lines(hits: Sequence[Hit], asked: Wanted) -> Iterator[Line]:
    for hit in hits:
        place = f"{one_line(hit.conversation_id)}:{hit.seq}"
        yield line(
            pad(place, 30), Span(f"{when(hit.at)}  {pad(hit.said_by, 7)}  ", "dim"), *_marked(hit.excerpt, asked)
        )
    if not hits:
        yield line(Span("nothing found", "dim"))


def _marked(text: str, asked: Wanted) -> Iterator[Span | str]:
    after = 0
    for start, end in spans(text, asked):
        yield safe(text[after:start])
        yield Span(safe(text[start:end]), "heading")
        after = end
    yield safe(text[after:])
