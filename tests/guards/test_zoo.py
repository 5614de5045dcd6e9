"""Bad models (the scripts of `bench/zoo`) end within their limits and with words that help; what the guards said then,
they say again over the journal; and other thresholds say something else."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from guard_cases import Seen, everything_allowed, seen_in

from turnwright.cli.main import main

ZOO = Path(__file__).resolve().parents[2] / "bench" / "zoo"
STEPS_MAX = 40
ENDS = {
    "alternates-two": "guard-stop",
    "announces-tools": "guard-stop",
    "done-at-once": "stop",
    "empties": "provider-error",
    "floods-refused": "guard-stop",
    "length-each-time": "length",
    "loops-in-arguments": "guard-stop",
    "loops-in-text": "guard-stop",
    "malformed-json": "guard-stop",
    "never-done": "max-steps",
    "plans-for-ever": "guard-stop",
    "polls-honestly": "stop",
    "reasoning-only": "provider-error",
    "repeats-one-call": "guard-stop",
    "two-hundred-calls": "guard-stop",
    "unknown-tools": "guard-stop",
}

pytestmark = pytest.mark.slow


class Recorded:
    """The whole zoo in one journal."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.seen: dict[str, Seen] = {}

    def conversations(self) -> list[str]:
        return [seen.lines[0]["conversation_id"] for seen in self.seen.values()]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    root = tmp_path_factory.mktemp("zoo")
    recorded = Recorded(root)
    recorded.home.mkdir()
    (recorded.home / "config.yaml").write_text(yaml.safe_dump(everything_allowed()))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TURNWRIGHT_HOME", str(recorded.home))
        for name in ENDS:
            recorded.seen[name] = met(name, root / f"work-{name}")
        yield recorded


def met(name: str, work: Path) -> Seen:
    work.mkdir()
    stream = io.BytesIO()
    with pytest.MonkeyPatch.context() as patched, io.TextIOWrapper(stream, encoding="utf-8") as stdout:
        patched.setattr(sys, "stdout", stdout)
        code = main(
            [
                *("run", "Make the tests pass.", "--model", f"scripted/{ZOO / name}.yaml", "--cwd", str(work)),
                *("--max-steps", str(STEPS_MAX), "--output", "stream-json"),
            ]
        )
        stdout.flush()
        return seen_in(code, stream.getvalue().decode())


def test_every_animal_of_the_zoo_is_known() -> None:
    assert sorted(path.stem for path in ZOO.glob("*.yaml")) == sorted(ENDS)


@pytest.mark.parametrize("name", ENDS)
def test_a_bad_model_ends_with_useful_words(zoo: Recorded, name: str) -> None:
    seen = zoo.seen[name]
    assert seen.reason == ENDS[name]
    assert seen.steps <= STEPS_MAX + 1
    assert len(seen.text) >= 15
    assert sum(line["type"] == "turn.ended" for line in seen.lines) == 1
    if name != "polls-honestly":
        assert seen.reason == "stop" or seen.exit != 0


def backtested(zoo: Recorded, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[dict[str, Any]]]:
    code = main(["guards", "backtest", *zoo.conversations(), "--json", *options])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_same_guards_say_the_same_over_the_journal(zoo: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = backtested(zoo, capsys, "--check")
    assert [(each["new"], each["gone"]) for each in found] == [([], [])] * len(ENDS)
    assert code == 0
    said = {name: len(seen.trips) for name, seen in zoo.seen.items()}
    assert {name: len(each["trips"]) for name, each in zip(ENDS, found, strict=True)} == said
    assert sum(said.values()) > 30


def test_another_threshold_shows_what_would_differ(
    zoo: Recorded, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("guards: {loop: {warn_at: 2, block_at: 3}, refused: {enabled: false}}\n")
    code, found = backtested(zoo, capsys, "--guards", str(other), "--check")
    by_name = dict(zip(ENDS, found, strict=True))
    assert code == 1
    repeats = by_name["repeats-one-call"]
    assert [(trip["guard"], trip["verdict"]) for trip in repeats["new"]][:2] == [("loop", "warn"), ("loop", "block")]
    assert {trip["guard"] for trip in by_name["unknown-tools"]["gone"]} >= {"refused"}
    assert (by_name["done-at-once"]["new"], by_name["done-at-once"]["gone"]) == ([], [])
    sooner = tmp_path / "sooner.yaml"
    sooner.write_text("guards: {progress: {action: 3}}\n")
    _, found = backtested(zoo, capsys, "--guards", str(sooner))
    (saved,) = dict(zip(ENDS, found, strict=True))["plans-for-ever"]["saved"]
    assert saved["steps"] >= 5


def test_every_conversation_of_the_zoo_replays(zoo: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    for name, conversation_id in zip(ENDS, zoo.conversations(), strict=True):
        assert main(["replay", conversation_id]) == 0, f"{name}: {capsys.readouterr().out}"
