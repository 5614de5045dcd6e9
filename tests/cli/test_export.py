"""A conversation in the forms that others read."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from turnwright.cli.main import main
from turnwright.views.ir import Ir

HELLO = "- text: Hello there.\n"


@pytest.fixture(autouse=True)
def greeted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("TURNWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "script.yaml").write_text(HELLO)
    assert main(["run", "hello", "--model", f"scripted/{tmp_path / 'script.yaml'}", "--output", "json"]) == 0


def test_the_formats_are_those_of_the_run_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    [folder] = (tmp_path / "home" / "data" / "runs").iterdir()
    capfd.readouterr()
    assert main(["export", "last"]) == 0
    assert capfd.readouterr().out == (folder / "ir.json").read_text() + "\n"
    assert main(["export", "last", "--format", "markdown"]) == 0
    assert capfd.readouterr().out == (folder / "conversation.md").read_text()


def test_a_part_of_a_conversation_goes_to_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    assert main(["export", "last:2", "--to", "part.json"]) == 0
    assert capfd.readouterr().out == ""
    part = json.loads((tmp_path / "work" / "part.json").read_bytes())
    assert [turn["messages"][0]["text"] for turn in part["turns"]] == ["hello"]
    assert "reason" not in part["turns"][0]


def test_a_file_that_cannot_be_written_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "last", "--to", "none/there.json"]) == 42
    assert "none/there.json cannot be written: No such file or directory." in capfd.readouterr().err


def test_the_schema_of_the_ir_is_shipped(capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    assert main(["schema", "ir"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert said.pop("$schema").startswith("https://json-schema.org/")
    assert said.pop("title") == "turnwright ir, version 1"
    assert said == json.loads(msgspec.json.encode(msgspec.json.schema(Ir)))
