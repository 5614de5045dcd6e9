from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_place import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Its home is not deep, so that the sockets are where they belong."""
    with tempfile.TemporaryDirectory(prefix="tw-home-") as home:
        place = Place(tmp_path, Path(home))
        yield place
        place.open_gate()
        place.clear()
