"""A guard of another package: installed, listed, configured, tripping, and stopping everything when it breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from guard_cases import everything_allowed
from plugin_package import installed_in

pytestmark = pytest.mark.slow
SCRIPT = "steps:\n  - calls: [{ls: {}}]\n    repeat: forever\n"
Line = dict[str, Any]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed_in(tmp_path_factory.mktemp("plugin"))


class Place:
    def __init__(self, root: Path, site: Path) -> None:
        self.root = root
        (root / "work").mkdir()
        (root / "home").mkdir()
        (root / "script.yaml").write_text(SCRIPT)
        self._environment = {**os.environ, "TURNWRIGHT_HOME": str(root / "home"), "PYTHONPATH": str(site)}

    def tell(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "turnwright", *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def run(self, config: str) -> tuple[int, list[Line], str]:
        text = yaml.safe_dump({**yaml.safe_load(config), **everything_allowed()})
        (self.root / "home" / "config.yaml").write_text(text)
        done = self.tell(
            *("run", "do it", "--model", f"scripted/{self.root}/script.yaml", "--cwd", str(self.root / "work")),
            *("--max-steps", "5", "--output", "stream-json"),
        )
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.fixture
def place(tmp_path: Path, site: Path) -> Place:
    return Place(tmp_path, site)


def ended(lines: list[Line]) -> list[str]:
    return [line["reason"] for line in lines if line["type"] == "turn.ended"]


def test_it_is_listed_and_explained(place: Place) -> None:
    done = place.tell("guards", "list", "--json")
    rows = {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}
    row = rows["counting"]
    assert (row["source"], row["enabled"], row["watches"]) == ("counting-guard", False, "how many results there are")
    assert row["thresholds"] == {"at": {"value": 2, "default": 2}}
    assert "is no guard" in rows["no_guard"]["watches"]


def test_it_watches_once_it_is_configured(place: Place) -> None:
    code, lines, _ = place.run("{}")
    assert (code, ended(lines)) == (53, ["max-steps"])
    code, lines, _ = place.run("guards: {counting: {}}")
    trips = [(line["guard"], line["verdict"]) for line in lines if line["type"] == "guard.tripped"]
    assert (code, ended(lines), trips) == (60, ["guard-stop"], [("counting", "stop")])
    code, lines, _ = place.run("guards: {counting: {options: {at: 1}}}")
    assert [line["seq"] for line in lines if line["type"] == "tool.ended"][1:] == []
    backtested = place.tell("guards", "backtest", "last", "--json", "--check")
    assert backtested.returncode == 0, backtested.stderr


def test_a_guard_that_breaks_stops_the_turn(place: Place) -> None:
    """It never fails open."""
    code, lines, errors = place.run("guards: {counting: {options: {at: 0}}}")
    assert (code, ended(lines)) == (1, ["internal-error"])
    assert "ValueError: this guard is broken" in lines[-1].get("detail", "") + lines[-1].get("error", "") + errors
    assert sum(line["type"] == "tool.started" for line in lines) == 1


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("guards: {countin: {}}", "guards.countin: there is no guard of this name. Did you mean counting?"),
        ("guards: {counting: {options: {att: 1}}}", "guards.counting.options: "),
        ("guards: {counting: {options: {at: often}}}", "guards.counting.options: "),
        ("guards: {no_guard: {}}", "is no guard"),
    ],
)
def test_what_is_wrong_is_said_before_anything_begins(place: Place, config: str, said: str) -> None:
    code, lines, errors = place.run(config)
    assert (code, lines) == (52, [])
    assert said in errors
