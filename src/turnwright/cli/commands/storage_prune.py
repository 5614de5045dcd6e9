"""`turnwright storage prune`: nothing is deleted that was not named, shown and agreed to."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator

import msgspec

from turnwright.app.journals import opened_journal
from turnwright.app.storage import Removed, chosen, remove
from turnwright.cli.exit_codes import ExitCode
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.schema.errors import UsageError
from turnwright.views.text import Line, Span, line, one_line, plural, size


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("conversations", metavar="ID", nargs="*", help="which, as sessions lists them")
    parser.add_argument("--older-than", metavar="DAYS", type=float, help="those last written so many days ago")
    parser.add_argument("--archived", action="store_true", help="those in the archive")
    parser.add_argument("--captures", action="store_true", help="only the captured bytes of their attempts")
    parser.add_argument("--dry-run", action="store_true", help="say what would go, and delete nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    if not args.conversations and args.older_than is None and not args.archived:
        raise UsageError(
            "Nothing says what is to be pruned.", remedy="Name conversations, or --older-than, --archived."
        )
    if args.conversations and (args.older_than is not None or args.archived):
        raise UsageError("Conversations are named, or chosen by a condition; not both.", remedy="Give one of them.")
    agreed = args.yes or args.dry_run
    if not agreed and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("Nobody is there to agree.", remedy="Give --yes, or --dry-run to see what would go.")
    loaded = loaded_config(args, workspace_of(args.cwd))
    terminal = Terminal(sys.stdout)

    async def main() -> int:
        async with opened_journal(loaded, label="prune") as journal:
            named = await chosen(journal, args.conversations, older_days=args.older_than, archived=args.archived)
            if not args.yes:
                tried = await remove(loaded, journal, named, captures=args.captures, dry_run=True)
                _tell(tried, terminal, args.json and args.dry_run)
                if args.dry_run or not _anything(tried):
                    return ExitCode.DONE
                if not await asyncio.to_thread(_agreed):
                    return ExitCode.CANCELLED
            done = await remove(loaded, journal, named, captures=args.captures, dry_run=False)
            _tell(done, terminal, args.json)
            return ExitCode.DONE

    return asyncio.run(main())


def _anything(removed: Removed) -> bool:
    """A conversation that forks share wholly goes out of sight, and takes nothing with it."""
    return bool(removed.journal.conversations or removed.journal.payloads)


def _agreed() -> bool:
    print("Delete this for good? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _tell(removed: Removed, terminal: Terminal, as_json: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(removed) + b"\n")
    else:
        terminal.lines(_lines(removed))


def _lines(removed: Removed) -> Iterator[Line]:
    pruned = removed.journal
    for name, why in sorted(pruned.kept.items()):
        yield line(Span(f"{one_line(name)} stays: {one_line(why)}", "warn"))
    facts = f"{plural(pruned.facts, 'fact')} ({size(pruned.fact_bytes)})"
    payloads = f"{plural(pruned.payloads, 'payload')} ({size(pruned.payload_bytes)})"
    runs = f"{plural(removed.runs, 'run folder')} ({size(removed.runs_bytes)})"
    verb = "would go" if pruned.dry_run else "are gone"
    yield line(f"{plural(len(pruned.conversations), 'conversation')}, {facts}, {payloads}, {runs} {verb}")
