"""`turnwright wire replay`: recorded bytes through today's codecs."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec

from turnwright.app.clock import SystemClock
from turnwright.app.kept_captures import cassettes_at, replay
from turnwright.cli.exit_codes import ExitCode
from turnwright.schema.errors import InputError


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="FILE|DIR", help="a cassette, or a folder of them")
    parser.add_argument("--speed", choices=("zero", "recorded"), default="zero", help="with the waits it had, or none")


def run(args: argparse.Namespace) -> int:
    clock = SystemClock() if args.speed == "recorded" else None

    async def main() -> int:
        tried = different = 0
        for path in cassettes_at(Path(args.path)):
            replayed = await replay(path, clock)
            tried += 1
            different += replayed.differs
            sys.stdout.buffer.write(msgspec.json.encode(replayed) + b"\n")
        if not tried:
            raise InputError(f"There is no cassette in {args.path}.", remedy="Make some with wire keep.")
        sys.stderr.write(f"{tried} replayed, {different} differ from what was kept\n")
        return ExitCode.ERROR if different else ExitCode.DONE

    return asyncio.run(main())
