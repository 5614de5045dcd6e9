"""`turnwright patch apply`: the patch tool's own work, on a folder of the user's choice (T6)."""

from __future__ import annotations

import argparse
from pathlib import Path

from turnwright.cli.given import read_given, text_of


def add(parser: argparse.ArgumentParser) -> None:
    from turnwright.tools.patch.formats import FORMATS

    parser.add_argument("--format", choices=FORMATS, required=True, help="how the patch is written")
    parser.add_argument("--dir", metavar="D", default=".", help="the folder it is for (default: this one)")
    parser.add_argument("--path", metavar="P", default="", help="the file a v4a_diff is for, where it does not say so")
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="the patch (default: stdin)")


def run(args: argparse.Namespace) -> int:
    """A refusal is a ToolFailure, and nothing has changed then."""
    from turnwright.tools.patch.directory import apply_to_directory

    text = text_of(read_given(args.file), args.file)
    for line in apply_to_directory(args.format, text, Path(args.dir), path=args.path):
        print(line)
    return 0
