"""Where the commands of these tests run."""

from __future__ import annotations

from pathlib import Path

import pytest
from budget_place import Place, Streamed


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(tmp_path)
    monkeypatch.setenv("TURNWRIGHT_HOME", str(place.home))
    monkeypatch.chdir(place.work)
    return place


@pytest.fixture
def streamed(capsys: pytest.CaptureFixture[str]) -> Streamed:
    return Streamed(capsys)
