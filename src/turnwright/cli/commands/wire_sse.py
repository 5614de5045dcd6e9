"""`turnwright wire sse`: the framer's own reading of a stream, one JSON object per event (P21)."""

from __future__ import annotations

import argparse
import sys

from turnwright.cli.given import read_given
from turnwright.schema.errors import InputError


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--chunks", action="store_true", help="the input is a JSON array of base64 strings, fed in turn"
    )
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="the stream (default: stdin)")


def run(args: argparse.Namespace) -> int:
    from turnwright.wire.sse import sse_lines

    raw = read_given(args.file)
    for line in sse_lines(_chunks(raw) if args.chunks else [raw]):
        sys.stdout.buffer.write(line + b"\n")
    return 0


def _chunks(raw: bytes) -> list[bytes]:
    import msgspec

    try:
        return msgspec.json.decode(raw, type=list[bytes])
    except msgspec.DecodeError as bad:
        raise InputError(
            f"The input is not a JSON array of base64 strings: {bad}.", remedy="Leave out --chunks for a plain stream."
        ) from bad
