"""Finding, labelling, measuring and deleting, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnwright.cli.main import main


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("TURNWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "script.yaml").write_text("- {text: Hello there., repeat: forever}\n")
    return tmp_path / "home"


def told(capfd: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    capfd.readouterr()
    main([*words, "--json"])
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def asked(tmp_path: Path, text: str) -> None:
    assert main(["run", text, "--model", f"scripted/{tmp_path / 'script.yaml'}", "--output", "json"]) == 0


def ids(capfd: pytest.CaptureFixture[str], *options: str) -> list[object]:
    return [each["conversation_id"] for each in told(capfd, "sessions", *options)]


def test_nothing_is_there_yet(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "needle"]) == 1
    assert capfd.readouterr().out == "nothing found\n"
    assert main(["storage"]) == 42


def test_what_was_said_is_found(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked(tmp_path, "where is the needle")
    asked(tmp_path, "something else")
    [hit] = told(capfd, "search", "the needle")
    assert (hit["said_by"], hit["excerpt"], hit["seq"]) == ("user", "where is the needle", 2)
    assert told(capfd, "search", "needle", "--in", "last") == []
    assert len(told(capfd, "search", "hello", "there")) == 2
    capfd.readouterr()
    assert main(["search", "needle"]) == 0
    shown = capfd.readouterr().out
    assert shown.startswith(f"{hit['conversation_id']}:2 ") and shown.endswith("user     where is the needle\n")


def test_labels_stay_with_the_conversation(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked(tmp_path, "first")
    asked(tmp_path, "second")
    second, first = ids(capfd)
    assert main(["label", str(first), "--title", " A  name ", "--tag", "bug", "--tag", "ui", "--archive"]) == 0
    assert ids(capfd) == [second]
    assert ids(capfd, "--archived") == ids(capfd, "--all", "--tag", "ui") == [first]
    assert ids(capfd, "--all") == [first, second]
    [before] = told(capfd, "label", str(first))
    [after] = told(capfd, "label", str(first), "--untag", "ui", "--untag", "none", "--tag", "bug", "--unarchive")
    assert (before["title"], before["tags"], before["archived"]) == ("A name", ["bug", "ui"], True)
    assert (after["title"], after["tags"], after["archived"]) == ("A name", ["bug"], False)
    assert after["last_seq"] == int(str(before["last_seq"])) + 1
    assert main(["replay", str(first)]) == 0
    assert main(["export", str(first), "--format", "turnwright", "--to", "kept"]) == 0
    assert main(["storage", "prune", str(first), "--yes"]) == 0
    assert main(["import", "kept"]) == 0
    assert [(each["title"], each["tags"]) for each in told(capfd, "sessions", "--tag", "bug")] == [("A name", ["bug"])]
    for bad in (["--tag", "two words"], ["--title", "  "]):
        assert main(["label", "last", *bad]) == 42


def test_only_what_was_named_goes(tmp_path: Path, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for text in ("one", "two", "three"):
        asked(tmp_path, text)
    three, two, one = ids(capfd)
    runs = home / "data" / "runs"
    (runs / "mine").mkdir()
    assert main(["storage", "prune"]) == main(["storage", "prune", str(one)]) == 2
    [tried] = told(capfd, "storage", "prune", str(one), str(three), "--dry-run")
    assert len(ids(capfd)) == 3 and len(list(runs.iterdir())) == 4
    [done] = told(capfd, "storage", "prune", str(one), str(three), "--yes")
    assert done["runs"] == tried["runs"] == 2
    assert ids(capfd) == [two]
    assert [path.name.partition("_")[2] for path in sorted(runs.iterdir())] == [two, ""]
    [kept] = told(capfd, "storage")
    assert list(dict(kept["runs_of"])) == [two]  # type: ignore[call-overload]
    capfd.readouterr()
    assert main(["journal", "verify"]) == 0
    assert main(["storage", "prune", "--older-than", "1", "--yes"]) == 0
    assert ids(capfd) == [two]
    assert main(["storage", "prune", "--older-than", "0", "--yes"]) == 0
    assert ids(capfd) == []
    assert main(["journal", "verify"]) == 0
