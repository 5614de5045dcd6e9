"""The journal's long proofs, at their full size: ten thousand power cuts, and every call that may fail.

usage: prove.py [--trials N] [--step N]

CI runs a sample of both (`test_storage.py`).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 dev.py journal", description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000, help="power cuts (default: 10,000)")
    parser.add_argument("--seed", type=int, default=11, help="of the moments and of what reached the disk")
    parser.add_argument("--step", type=int, default=1, help="every so many calls fails once (default: every call)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="turnwright-prove-") as folder:
        power, faulty = Path(folder) / "power", Path(folder) / "faulty"
        power.mkdir()
        faulty.mkdir()
        codes = [
            _run("power.py", str(power), str(args.trials), str(args.seed)),
            _run("faulty.py", str(faulty), str(args.step)),
        ]
    return max(codes)


def _run(program: str, *words: str) -> int:
    return subprocess.run([sys.executable, "-W", "error", str(HERE / program), *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
