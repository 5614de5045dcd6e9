"""A sample of `dev.py escape`, which takes minutes; and what that is built on."""

from __future__ import annotations

import asyncio
import fnmatch
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from attack_kit import every_attack
from suite import TIERS, intended
from tool_attacks import Unavailable, races, still_traps

ESCAPE = Path(__file__).with_name("escape.py")
FAMILIES = {path.stem.removeprefix("attack_") for path in ESCAPE.parent.glob("attack_*.py")} - {"kit"}


def escape(*words: str) -> str:
    done = subprocess.run([sys.executable, str(ESCAPE), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_the_document_lists_are_attacks() -> None:
    attacks = every_attack()
    assert {name.partition("/")[0] for name in attacks} == FAMILIES
    listed = intended()
    assert set(listed) == set(TIERS)
    patterns = [pattern for names in listed.values() for pattern in names]
    assert [pattern for pattern in patterns if not fnmatch.filter(attacks, pattern)] == []
    assert listed["namespaces"] == {"git/first-nested-repository"}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's")
def test_a_sample_of_attacks_succeeds_bare_and_nowhere_else() -> None:
    tiers = ["--tier", "bare", *(["--tier", "namespaces"] if shutil.which("bwrap") else []), "--tier", "kernel-lite"]
    user = ["--user", "root" if os.geteuid() == 0 else "user"]
    shown = escape(*tiers, *user, "--parts", "24", "--part", "3")
    assert shown.count(" attempts ") == len(tiers) // 2


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_sample_of_attacks_by_an_ordinary_user() -> None:
    escape("--tier", "bare", "--tier", "namespaces", "--user", "user", "--parts", "24", "--part", "15")


def test_no_name_leads_a_file_tool_out(tmp_path: Path) -> None:
    tally = asyncio.run(still_traps(tmp_path))
    assert (tally.successes, tally.attempts > 300) == ([], True)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's")
def test_no_race_leads_a_search_out_of_the_workspace(tmp_path: Path) -> None:
    try:
        tally = asyncio.run(races(tmp_path, 0, 15, "kernel-lite"))
    except Unavailable as lacking:
        pytest.skip(str(lacking))
    assert tally.successes == []
    assert tally.got_through > 0, "nothing was searched"


@pytest.mark.slow
def test_no_race_leads_a_file_tool_out(tmp_path: Path) -> None:
    tally = asyncio.run(races(tmp_path, 300, 0))
    assert tally.successes == []
    assert 0 < tally.got_through < tally.attempts, "the race was not run"
