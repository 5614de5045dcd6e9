"""Goldens: whole renderings as files. `TURNWRIGHT_TEST_WRITE_GOLDENS=1` writes them anew; read the diff before it is
committed."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "goldens"


def check(name: str, seen: str | bytes) -> None:
    path = FOLDER / name
    data = seen.encode() if isinstance(seen, str) else seen
    if os.environ.get("TURNWRIGHT_TEST_WRITE_GOLDENS") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    assert data.decode() == path.read_bytes().decode()
