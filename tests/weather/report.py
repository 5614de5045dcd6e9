"""Everything of the weather, whole, and what was seen: `python3 dev.py weather [--part NAME …]`.

    records   the recorded traffic through `turnwright wire decode`, whole, byte by byte and cut at random
    table     the fault table, every row through a process of `turnwright run`
    chance    streams that fail by chance, through processes as well

Leaves with 1 where anything did not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(folder) for folder in (TESTS / "weather", TESTS / "app")]

from recorded_traffic import WIRE  # noqa: E402
from weather_records import all_decoded  # noqa: E402
from weather_records import rows as record_rows  # noqa: E402
from weather_table import Row, is_quiet, rows, spread, weathered  # noqa: E402

from turnwright.testing.fault_table import cases  # noqa: E402
from turnwright.testing.fault_table.case import FaultCase  # noqa: E402
from turnwright.testing.fault_table.chance import random_cases  # noqa: E402

AT_ONCE = 16


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("records", "table", "chance"), action="append", help="only this; may repeat")
    parser.add_argument("--rows", type=int, help="only so many rows of the table, evenly spread")
    parser.add_argument("--streams", type=int, default=1_000, help="how many that fail by chance (default: 1000)")
    parser.add_argument("--seed", type=int, default=7, help="of chance (default: 7)")
    asked = parser.parse_args(words)
    parts = asked.part or ["records", "table", "chance"]
    held = True
    if "records" in parts:
        held &= records()
    if "table" in parts:
        every = list(cases())
        held &= played("the fault table", spread(every, asked.rows) if asked.rows else every)
    if "chance" in parts:
        held &= played(f"by chance, seed {asked.seed}", list(random_cases(asked.streams, seed=asked.seed)))
    return 0 if held else 1


def records() -> bool:
    if not WIRE.is_dir():
        print(f"no recorded traffic at {WIRE}; TURNWRIGHT_TEST_SHARED names the folder of wire/", flush=True)
        return True
    done = all_decoded()
    print("\n".join(record_rows(done)), flush=True)
    return not any(each.wrong for each in done)


def played(name: str, chosen: Sequence[FaultCase]) -> bool:
    """Those in which somebody waits in vain cost time and no work: they go side by side in greater numbers."""
    print(f"\n{name}: {len(chosen)} cases, a process each", flush=True)
    done: list[Row] = []

    def told(row: Row) -> None:
        done.append(row)
        if len(done) % 100 == 0:
            print(f"  {len(done)} played, {sum(bool(each.broken) for each in done)} broken", flush=True)

    async def both(root: Path) -> None:
        quiet = [case for case in chosen if is_quiet(case)]
        await weathered([case for case in chosen if not is_quiet(case)], root / "a", at_once=AT_ONCE, told=told)
        if quiet:
            await weathered(quiet, root / "b", at_once=3 * AT_ONCE, told=told)

    with tempfile.TemporaryDirectory(prefix="turnwright-weather-") as folder:
        asyncio.run(both(Path(folder)))
    print("\n".join(rows(done)), flush=True)
    return not any(row.broken for row in done)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
