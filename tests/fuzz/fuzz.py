"""Hypothesis for so many seconds, on everything that reads foreign bytes: `python3 dev.py fuzz --seconds 60`.

Leaves with 1, and with the smallest input that shows it, where something raised, was slow or depended on the cut.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, seed, settings

sys.path.append(str(Path(__file__).parent))

from fuzz_targets import TARGETS, Target

ROUND = 150
"""Inputs of one target before it is the next one's turn."""


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, help="of the first round; chosen by chance and printed where left out")
    parser.add_argument("--only", choices=TARGETS, action="append", help="only this target; may repeat")
    asked = parser.parse_args(words)
    first = asked.seed if asked.seed is not None else random.randrange(1_000_000)
    began = time.monotonic()
    tried: Counter[str] = Counter()
    failed = 0
    names = asked.only or list(TARGETS)
    for number, name in enumerate(cycle(names), first):
        if time.monotonic() - began > asked.seconds and number >= first + len(names):
            break
        try:
            tried[name] += fuzzed(TARGETS[name], number, ROUND)
        except Exception:  # noqa: BLE001 - whatever it is, it is what was looked for
            failed += 1
            print(f"{name}, seed {number}:\n{traceback.format_exc()}", flush=True)
    for name in names:
        print(f"{name:<16}{tried[name]:>10} inputs")
    print(f"{failed} failures in {time.monotonic() - began:.0f} s, from seed {first}")
    return 1 if failed else 0


def fuzzed(target: Target, number: int, examples: int) -> int:
    """How many inputs it was shown; raises at the first that breaks something, made small."""
    shown = 0

    @seed(number)
    @settings(max_examples=examples, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(target.given)
    def run(value: Any) -> None:
        nonlocal shown
        shown += 1
        target.check(value)

    run()
    return shown


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
