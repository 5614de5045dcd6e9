"""`python -m bench [--quick] [--only NAME ...]`: everything in one run, then one table."""

from __future__ import annotations

import argparse
import compileall
import os
import sys
from pathlib import Path

from bench.measures import MEASURES, Bench
from bench.table import Row, table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="What Turnwright costs, against a bare loop.")
    parser.add_argument("--quick", action="store_true", help="small counts and one repeat: a look, not a measurement")
    parser.add_argument("--only", nargs="+", choices=list(MEASURES), default=list(MEASURES), metavar="NAME")
    parser.add_argument("--repeats", type=int, help="interleaved repeats; the best of each figure counts")
    args = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    os.chdir(root)
    for folder in ("src", "bench"):
        compileall.compile_dir(root / folder, quiet=2)
    rows: list[Row] = []
    bench = Bench(repeats=args.repeats or (1 if args.quick else 5), quick=args.quick)
    for name in args.only:
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows += MEASURES[name](bench)
    print(f"\n{table(rows)}\n")
    missed = sum(not row.held for row in rows)
    print(f"{len(rows)} measures, {missed} missed their target. How to read this: docs/how-to/benchmarks.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
