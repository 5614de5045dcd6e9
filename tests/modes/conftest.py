from pathlib import Path

import pytest
from modes_place import Place


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Place:
    place = Place(tmp_path, capsys)
    monkeypatch.setenv("TURNWRIGHT_HOME", str(place.home))
    return place
