"""A home and a workspace in which runs of the real command line are told what configuration and script they get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from turnwright.cli.main import main
from turnwright.schema.settings import Settings

Line = dict[str, Any]


class Ran(msgspec.Struct, frozen=True):
    """What a run showed."""

    code: int
    lines: list[Line]
    errors: str

    def of(self, kind: str) -> list[Line]:
        return [line for line in self.lines if line["type"] == kind]

    @property
    def result(self) -> Line:
        return self.lines[-1]

    @property
    def conversation_id(self) -> str:
        return str(self.lines[0]["conversation_id"])

    @property
    def modes(self) -> list[str]:
        """Of the steps."""
        return [str(line.get("mode", "build")) for line in self.of("step.started")]

    @property
    def changes(self) -> list[tuple[str, str, str]]:
        return [(line["before"], line["after"], line["reason"]) for line in self.of("mode.changed")]


class Place:
    def __init__(self, root: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self.work, self.home = root / "work", root / "home"
        self.work.mkdir()
        self.home.mkdir()
        self._capture = capture

    def run(self, *arguments: str, script: str = "", config: str = "", model: str = "script") -> Ran:
        """`run "do it"` with this script and configuration, or whatever the arguments say; shown as a stream. Without a
        `model` it is the configured one."""
        allowed = {"permissions": {"autonomy": 4}} if "permissions" in Settings.__struct_fields__ else {}
        (self.home / "config.yaml").write_text(yaml.safe_dump({**yaml.safe_load(config or "{}"), **allowed}))
        written = self.root / "script.yaml"
        if script:
            written.write_text(script)
        begin = arguments or ("run", "do it")
        scripted = ("--model", f"scripted/{written}") if model else ()
        code = main([*begin, *scripted, "--cwd", str(self.work), "--output", "stream-json"])
        told = self._capture.readouterr()
        return Ran(code, [json.loads(line) for line in told.out.splitlines()], told.err)

    def tell(self, *arguments: str) -> tuple[int, str]:
        code = main([*arguments])
        told = self._capture.readouterr()
        return code, told.out + told.err
