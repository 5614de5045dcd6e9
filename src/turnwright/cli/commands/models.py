"""`turnwright models`: what is known of models, how new that is, and where it comes from."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator

import msgspec

from turnwright.app.model_list import Listed, ModelRow, listed_models
from turnwright.cli.exit_codes import ExitCode
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.views.text import Line, Span, count, line, one_line, pad, right

NUMBERS = ("window", "output", "$ in", "$ out", "$ read", "$ write")
LEGEND = "USD per million tokens; + more for long prompts; ? unknown; * as your settings say"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", nargs="*", metavar="QUERY", help="words that the name must hold")
    parser.add_argument("--provider", metavar="NAME", default="", help="the models of this one alone")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Some are known: 0."""
    loaded = loaded_config(args, workspace_of(args.cwd))
    listed = asyncio.run(listed_models(loaded, args.provider, args.query))
    if listed.missing:
        sys.stderr.write(f"turnwright: there is no catalogue of models: {listed.missing}\n")
    if args.json:
        for row in listed.rows:
            sys.stdout.buffer.write(msgspec.json.encode(row) + b"\n")
    elif listed.rows:
        Terminal(sys.stdout).lines(_lines(listed))
    else:
        sys.stderr.write("turnwright: no model of that name is known.\n")
    return ExitCode.DONE if listed.rows else ExitCode.ERROR


def _lines(listed: Listed) -> Iterator[Line]:
    """Not cut to the terminal: a name is there to be copied."""
    names = max(len(row.model) for row in listed.rows)
    yield line(Span(f"{', '.join(listed.sources) or 'no catalogue'}; {LEGEND}", "dim"))
    head = " ".join(right(each, 8) for each in NUMBERS)
    yield line(Span(f"{pad('model', names)} {head}  {pad('it can', 22)}  as of       from", "dim"))
    for row in listed.rows:
        yield _line(row, names)


def _line(row: ModelRow, names: int) -> Line:
    price = row.price
    rates = (price.input, price.output, price.cache_read, price.cache_write) if price else (None,) * 4
    more = "+" if price and price.tiers else ""
    numbers = [count(row.window), count(row.max_output), *(_rate(rate, more) for rate in rates)]
    sources = ", ".join(source.partition(" ")[0] for source in row.sources)
    return line(
        pad(one_line(row.model), names),
        Span("*" if row.overridden else " ", "warn"),
        " ".join(right(each, 8) for each in numbers)[1:],
        f"  {pad(_abilities(row), 22)}  ",
        Span(f"{row.updated or '?':<10}  {sources}{', deprecated' if row.deprecated else ''}", "dim"),
    )


def _rate(rate: float | None, more: str) -> str:
    return "?" if rate is None else f"{rate:.4f}".rstrip("0").rstrip(".") + more


def _abilities(row: ModelRow) -> str:
    able = {"tools": row.tools, "images": row.images, "reasoning": row.reasoning}
    said = " ".join(name for name, can in able.items() if can)
    return said or ("?" if None in able.values() else "-")
