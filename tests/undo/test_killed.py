"""kill -9 at any moment of an undo: the next one does the rest, and nothing begins in between."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from killed_undo import digest_of
from undo_place import WORST, Session, states_after


@pytest.mark.slow
def test_an_undo_that_is_killed_is_finished(tmp_path: Path) -> None:
    session = Session(tmp_path, repository=False)
    states_after(session.work, tmp_path / "copy", ())
    conversation = session.do(WORST)
    (tmp_path / "wanted.txt").write_text(digest_of(tmp_path / "copy"))
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("killed_undo.py")), str(tmp_path), f"{conversation}:1", "8"],
        env={**session.place.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 8
