"""`turnwright sessions`: what conversations there are."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from turnwright.app.journals import has_journal
from turnwright.app.reading import open_for_reading
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, count, loaded_config
from turnwright.cli.terminal import Terminal
from turnwright.journal.port import Journal
from turnwright.schema.ids import ConversationId
from turnwright.views.fold import folded
from turnwright.views.sessions import Session, fold_session, session_lines


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", metavar="N", type=count, default=20, help="the newest so many (default: 20)")
    parser.add_argument("--tag", metavar="TAG", help="only those with this tag")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--archived", action="store_true", help="those in the archive")
    which.add_argument("--all", action="store_true", help="also those in the archive")
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))

    async def main() -> int:
        if not has_journal(loaded):
            return _tell([], frozenset(), as_json=args.json)
        async with open_for_reading(loaded) as journal:
            found, held = await _found(journal, args)
        return _tell(found, held, as_json=args.json)

    return asyncio.run(main())


async def _found(journal: Journal, args: argparse.Namespace) -> tuple[list[Session], frozenset[ConversationId]]:
    """The newest that are wanted. More are asked for only where some are passed over."""
    found: list[Session] = []
    held: set[ConversationId] = set()
    seen, ask = 0, args.limit
    while len(found) < args.limit:
        listed = await journal.conversations(ask)
        for each in listed[seen:]:
            session = folded(fold_session, Session(), await journal.since(each.id))
            if _wanted(session, args) and len(found) < args.limit:
                found.append(session)
                held |= {each.id} if each.held_by is not None else set()
        if len(listed) < ask:
            break
        seen, ask = len(listed), ask * 4
    return found, frozenset(held)


def _wanted(session: Session, args: argparse.Namespace) -> bool:
    return (args.all or session.archived == args.archived) and (args.tag is None or args.tag in session.tags)


def _tell(found: list[Session], held: frozenset[ConversationId], *, as_json: bool) -> int:
    if as_json:
        for session in found:
            sys.stdout.buffer.write(msgspec.json.encode(session) + b"\n")
        return 0
    terminal = Terminal(sys.stdout)
    terminal.lines(session_lines(found, held, terminal.columns))
    return 0
