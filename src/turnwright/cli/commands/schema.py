"""`turnwright schema`: what programs that read our JSON may rely on."""

from __future__ import annotations

import argparse
import sys

from turnwright.schema.json_schema import DOCUMENTS, document, encoded


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("of", choices=DOCUMENTS, help="facts, live events, or the tree of settings")


def run(args: argparse.Namespace) -> int:
    sys.stdout.buffer.write(encoded(document(args.of)))
    return 0
