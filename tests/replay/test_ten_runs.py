"""The ten runs of `dev.py replays`, each by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from recordings import RECORDINGS, Recording
from ten_runs import lines, recorded


@pytest.mark.slow
@pytest.mark.parametrize("recording", RECORDINGS, ids=[each.name for each in RECORDINGS])
def test_a_recorded_run_is_run_again_and_one_byte_makes_it_differ(recording: Recording, tmp_path: Path) -> None:
    row = recorded(recording, tmp_path / "run")
    print("\n".join(lines([row])))
    assert row.complaints == ()
    assert (row.code, row.changed, row.rotten) == (0, 61, 61)
