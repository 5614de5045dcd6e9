"""Every recorded case of the four formats, applied to a real folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from turnwright.schema.errors import InputError, ToolFailure
from turnwright.tools.patch.directory import apply_to_directory
from turnwright.tools.patch.formats import Format, detect
from turnwright.tools.patch.search_replace import parse_search_replace

SHARED = Path(os.environ.get("TURNWRIGHT_TEST_SHARED") or Path(__file__).resolve().parents[4] / "shared") / "patch"
FORMATS: dict[str, Format] = {"v4a-patch": "apply_patch", "v4a-diff": "v4a_diff", "search-replace": "search_replace"}

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="no recorded patches (TURNWRIGHT_TEST_SHARED)")


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def plant(root: Path, files: dict[str, bytes]) -> Path:
    root.mkdir(exist_ok=True)
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def folders() -> list[Path]:
    return sorted((SHARED / "apply_patch").iterdir()) if SHARED.is_dir() else []


def records() -> list[dict[str, Any]]:
    if not SHARED.is_dir():
        return []
    return [json.loads(line) for line in (SHARED / "edits.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize("case", folders(), ids=lambda case: case.name)
def test_folder(case: Path, tmp_path: Path) -> None:
    before = tree(case / "input")
    expected = tree(case / "expected")
    root = plant(tmp_path / "work", before)
    text = (case / "patch.txt").read_bytes().decode()
    assert detect(text) == "apply_patch"
    try:
        apply_to_directory("apply_patch", text, root)
    except (ToolFailure, InputError):
        assert case.name in ("012_delete_directory_fails", "013_rejects_invalid_hunk_header")
        expected = before
    assert tree(root) == expected


@pytest.mark.parametrize("record", records(), ids=lambda record: str(record["id"]))
def test_record(record: dict[str, Any], tmp_path: Path) -> None:
    form, text = FORMATS[record["format"]], record["model_output"]
    before = {name: content.encode() for name, content in (record.get("files_before") or {}).items()}
    root = plant(tmp_path / "work", before)
    if form == "search_replace" and "edits" in record:
        assert [[block.path, block.search, block.replace] for block in parse_search_replace(text)] == record["edits"]
    if "error" in record:
        with pytest.raises((ToolFailure, InputError)):
            apply_to_directory(form, text, root, mode=record.get("mode"))
        assert tree(root) == before
    elif "files_after" in record:
        apply_to_directory(form, text, root, mode=record.get("mode"))
        assert tree(root) == {name: content.encode() for name, content in record["files_after"].items()}
