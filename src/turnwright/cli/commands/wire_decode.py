"""`turnwright wire decode`: what a provider's reply means, whole or cut in any way (P21)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from turnwright.cli.given import read_given
from turnwright.schema.errors import UsageError


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dialect", metavar="D", help="what the body speaks: openai-chat, …")
    parser.add_argument("--content-type", metavar="CT", default="", help="of the response, where it is known")
    parser.add_argument("--status", metavar="N", type=int, default=200, help="of the response")
    parser.add_argument("--events", action="store_true", help="the parts, one JSON object a line")
    parser.add_argument(
        "--records", metavar="FILE", help="recorded responses instead, one JSON object a line; - is stdin"
    )
    parser.add_argument("--cut", metavar="HOW", default="whole", help="how the body arrives: whole, bytes, random:SEED")
    parser.add_argument("file", metavar="FILE", nargs="?", help="the body (default: stdin)")


def run(args: argparse.Namespace) -> int:
    for line in _lines(args):
        sys.stdout.buffer.write(line + b"\n")
    return 0


def _lines(args: argparse.Namespace) -> Iterator[bytes]:
    import msgspec

    from turnwright.app.decode import cut_of, decode_body, decode_records, dialect_of, events_of_body

    cut = cut_of(args.cut)
    if args.records is not None:
        if args.file is not None:
            raise UsageError("--records is read instead of a body.", remedy=f"Leave out {args.file}.")
        return decode_records(read_given(args.records).splitlines(), cut, events=args.events)
    if args.dialect is None:
        raise UsageError("A body alone does not say what it speaks.", remedy="Give --dialect.")
    dialect, body = dialect_of(args.dialect), read_given(args.file or "-")
    if args.events:
        return events_of_body(dialect, body, content_type=args.content_type, status=args.status, cut=cut)
    return iter(
        [msgspec.json.encode(decode_body(dialect, body, content_type=args.content_type, status=args.status, cut=cut))]
    )
