"""`turnwright wire serve-faults`: the fault server of our own tests, for any client."""

from __future__ import annotations

import argparse
import os
import sys


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", metavar="N", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--pulse", metavar="SECONDS", type=float, default=1.0, help="time between keep-alives")


def run(args: argparse.Namespace) -> int:
    """Becomes the server: the fakes are nobody's import at run time."""
    server = [sys.executable, "-m", "turnwright.testing.faults", "--port", str(args.port), "--pulse", str(args.pulse)]
    sys.stdout.flush()
    os.execv(sys.executable, server)
    raise AssertionError("execv does not return")
