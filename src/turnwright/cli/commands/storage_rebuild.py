"""`turnwright storage rebuild`: the index of words, made anew from the facts."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from turnwright.app.journals import opened_journal
from turnwright.cli.given import workspace_of
from turnwright.cli.options import add_config_options, add_json_option, loaded_config
from turnwright.views.text import plural


def add(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    loaded = loaded_config(args, workspace_of(args.cwd))

    async def main() -> int:
        async with opened_journal(loaded, label="rebuild") as journal:
            return await journal.reindex()

    found = asyncio.run(main())
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode({"facts": found}) + b"\n")
    else:
        print(f"{plural(found, 'fact')} can be searched.")
    return 0
