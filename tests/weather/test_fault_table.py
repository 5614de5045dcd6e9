"""The fault table and streams that fail by chance, through `turnwright run`: a slice each time, more of it among the
slow tests, and all of it with `python3 dev.py weather`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from weather_table import Row, is_quiet, rows, spread, weathered

from turnwright.testing.fault_table import FAULTS, cases
from turnwright.testing.fault_table.case import FaultCase
from turnwright.testing.fault_table.chance import random_cases

QUICK = 24
FRESH = 6
SLOW = 240
CHANCE = 120


def prompt(count: int) -> list[FaultCase]:
    """Rows in which nobody waits in vain."""
    return spread([case for case in cases() if not is_quiet(case) and case.expected.stall is None], count)


def one_of_each() -> list[FaultCase]:
    """Every fault, in another setting each."""
    chosen = []
    for number, fault in enumerate(FAULTS):
        its = [case for case in cases() if case.fault == fault.name]
        chosen.append(its[number * 7 % len(its)])
    return chosen


def held(done: Sequence[Row], count: int) -> None:
    print("\n".join(rows(done)))
    assert [line for row in done for line in row.broken] == []
    assert len(done) == count


async def test_a_slice_of_the_table(tmp_path: Path) -> None:
    held(await weathered(prompt(QUICK), tmp_path, at_once=QUICK), QUICK)


async def test_a_slice_of_the_table_by_fresh_processes(tmp_path: Path) -> None:
    held(await weathered(prompt(FRESH), tmp_path, at_once=FRESH, forked=False), FRESH)


@pytest.mark.slow
async def test_every_fault_and_more(tmp_path: Path) -> None:
    chosen = {case.id: case for case in [*one_of_each(), *spread(cases(), SLOW - len(FAULTS))]}
    held(await weathered(chosen.values(), tmp_path, at_once=24), len(chosen))


@pytest.mark.slow
async def test_streams_that_fail_by_chance(tmp_path: Path) -> None:
    """0 hung, and nothing called complete that is not."""
    held(await weathered(random_cases(CHANCE, seed=5), tmp_path, at_once=24), CHANCE)
