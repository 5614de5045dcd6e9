"""A folder, a home and a scripted model, for commands that run in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from turnwright.cli.main import main

PRICED = "price: {input: 12500, output: 12500}\n"
"""Eighty tokens for a dollar: sums that a float holds exactly."""


class Place:
    def __init__(self, root: Path) -> None:
        self.work = root / "work"
        self.home = root / "home"
        self.work.mkdir()
        self.home.mkdir()
        self.script = root / "script.yaml"

    def model(self, script: str) -> str:
        self.script.write_text(script)
        return f"scripted/{self.script}"


class Streamed:
    """Runs commands: their exit codes and what they said."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, list[dict[str, Any]]]:
        code = main([*words, "--output", "stream-json"])
        return code, [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]


def notes(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What is said of budgets, and not of what confines commands on this machine."""
    return [(line["code"], line["text"]) for line in lines if line["type"] == "note" and line["code"] != "sandbox"]
