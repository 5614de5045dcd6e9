"""`turnwright schema`: what programs that read our JSON may rely on."""

from __future__ import annotations

import argparse
import sys

from turnwright.schema.json_schema import DOCUMENTS, document, encoded

IR = "ir"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "of", choices=(*DOCUMENTS, IR), help="facts, live events, the tree of settings, or what export --format ir says"
    )


def run(args: argparse.Namespace) -> int:
    sys.stdout.buffer.write(encoded(_ir() if args.of == IR else document(args.of)))
    return 0


def _ir() -> dict[str, object]:
    from turnwright.views.ir import IR_VERSION, ir_schema

    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"turnwright ir, version {IR_VERSION}",
        **ir_schema(),
    }
