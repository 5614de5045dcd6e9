"""The crash table: `python tests/crash/table.py --all`.

Kills a run of the scripted task at every writing system call and at every named moment, carries it on, and prints what
came of it. Without --all it stops after --seconds, having tried points that are spread evenly over all of them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import get_args

from crash_judge import Kind
from crash_points import Point, has_strace
from crash_result import Trial
from crash_trial import Workers, spread

RESUME_P50_S = 2.0
COLUMNS: tuple[Kind, ...] = get_args(Kind)


def rows(trials: Iterable[Trial]) -> list[str]:
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.died or trial.faults:
            groups.setdefault(trial.point.group, []).append(trial)
    together = [trial for group in groups.values() for trial in group]
    columns = "".join(f"{column:>11}" for column in COLUMNS)
    head = f"{'killed at':<28}{'points':>7}{columns}{'resume p50':>13}{'max':>8}"
    lines = [head, "-" * len(head)]
    lines += [_row(name, groups[name]) for name in sorted(groups)]
    lines += ["-" * len(head), _row("all", together), ""]
    found = Counter(trial.found for trial in together if trial.died)
    lines.append("found at the death: " + ", ".join(f"{count} {name}" for name, count in found.most_common()))
    littered = sum(trial.temporary_files > 0 for trial in together)
    lines.append(f"a temporary file was left in the workspace: {littered} times")
    return lines


def _row(name: str, trials: Sequence[Trial]) -> str:
    kinds = Counter(kind for trial in trials for kind in {fault.kind for fault in trial.faults})
    seconds = [trial.resumed_s for trial in trials if trial.resumed_s is not None] or [0.0]
    counts = "".join(f"{kinds[column]:>11}" for column in COLUMNS)
    died = sum(trial.died for trial in trials)
    return f"{name:<28}{died:>7}{counts}{median(seconds):>11.2f} s{max(seconds):>6.2f} s"


def complaints(trials: Iterable[Trial]) -> list[str]:
    return [f"{trial.point}: {fault.kind}: {fault.what}" for trial in trials for fault in trial.faults]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every point, however long it takes")
    parser.add_argument("--seconds", type=float, default=180, help="begin no trial after that long (default: 180)")
    parser.add_argument(
        "--seeds",
        type=int,
        default=3,
        help="variants of talks, scenes and forks (default: 3)",
    )
    parser.add_argument("--only", default="", help="points whose name contains one of these, with commas between")
    parser.add_argument("--jobs", type=int, default=2, help="trials at a time (default: 2)")
    args = parser.parse_args(words)
    strace = has_strace()
    if not strace:
        print("strace is not to be had here: named moments only.", file=sys.stderr)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="crash-") as root, Workers(Path(root), args.jobs) as workers:
        points: list[Point] = [*workers.moments()]
        words = args.only.split(",")
        points += workers.seeded(range(1, args.seeds + 1), lambda name: any(word in name for word in words))
        points += workers.system_calls("first", "run", "resume", "migrate") if strace else []
        points = [point for point in points if any(word in f"{point} {point.group}" for word in words)]
        print(f"{len(points)} points, found in {time.monotonic() - began:.0f} s", flush=True)
        trials = []
        until = None if args.all else began + args.seconds
        for trial in workers.try_all(spread(points), until=until):
            trials.append(trial)
            for complaint in complaints([trial]):
                print(complaint, flush=True)
            if not trial.died and not trial.faults:
                print(f"not met: {trial.point}", flush=True)
    print("\n".join(rows(trials)))
    missed = sum(not trial.died for trial in trials)
    print(f"{len(trials)} of {len(points)} tried, {missed} of them not met; {time.monotonic() - began:.0f} s")
    resumed = [trial.resumed_s for trial in trials if trial.resumed_s is not None]
    slow = median(resumed) > RESUME_P50_S
    if slow:
        print(f"carrying on takes longer than {RESUME_P50_S:g} s")
    return 1 if slow or any(trial.faults for trial in trials) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
