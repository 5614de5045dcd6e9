"""Whole commands on real journals, with scripted models."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from turnwright.cli.main import main

HELLO = "- text: Hello there.\n"
WORK = """
follow: history
steps:
  - text: I look first.
    calls: [{ls: {}}]
  - calls: [{write: {path: made.txt, content: "made\\n"}}]
  - text: Made it.
"""


class Place:
    def __init__(self, root: Path) -> None:
        self.work = root / "work"
        self.home = root / "home"
        self.work.mkdir()
        self.script = root / "script.yaml"

    def model(self, script: str) -> str:
        self.script.write_text(script)
        return f"scripted/{self.script}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(tmp_path)
    monkeypatch.setenv("TURNWRIGHT_HOME", str(place.home))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.chdir(place.work)
    return place


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "turnwright", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_stream_json(place: Place) -> None:
    done = process("run", "say hello", "--model", place.model(HELLO), "--output", "stream-json")
    assert done.returncode == 0, done.stderr
    lines = lines_of(done.stdout)
    assert (lines[0]["type"], lines[-1]["type"]) == ("conversation.opened", "result")
    assert lines[0]["conversation_id"].startswith("c_")
    assert (lines[-1]["text"], lines[-1]["is_error"], lines[-1]["steps"]) == ("Hello there.", False, 1)
    seqs = [line["seq"] for line in lines if "seq" in line]
    assert seqs == list(range(1, len(seqs) + 1))


def test_json_and_text(place: Place) -> None:
    model = place.model(HELLO)
    as_json = process("run", "say hello", "--model", model, "--output", "json")
    assert [line["text"] for line in lines_of(as_json.stdout)] == ["Hello there."]
    as_text = process("run", "say hello", "--model", model)
    assert as_text.stdout == "Hello there.\n"
    assert "stop · 1 step" in as_text.stderr


def test_a_step_limit_is_53_and_can_be_carried_on(place: Place) -> None:
    model = place.model(WORK)
    done = process("run", "make it", "--model", model, "--max-steps", "1", "--output", "json")
    assert (done.returncode, lines_of(done.stdout)[0]["reason"]) == (53, "max-steps")
    again = process("resume", "last", "--continue", "--model", model, "--output", "json")
    assert again.returncode == 0, again.stderr


def test_a_conversation_is_listed_shown_traced_and_verified(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions"]) == 0
    assert capsys.readouterr().out == "no conversations yet\n"
    assert process("run", "make it", "--model", place.model(WORK)).returncode == 0
    assert (place.work / "made.txt").read_text() == "made\n"
    assert main(["sessions", "--json"]) == 0
    (session,) = lines_of(capsys.readouterr().out)
    assert (session["title"], session["reason"], session["steps"]) == ("make it", "stop", 3)
    name = session["conversation_id"]
    assert main(["show", name]) == 0
    shown = capsys.readouterr().out
    assert "I look first." in shown and "Made it." in shown
    assert main(["show", f"{name}:2", "--json"]) == 0
    assert [line["type"] for line in lines_of(capsys.readouterr().out)] == ["conversation.opened", "turn.started"]
    assert main(["trace", name, "--json"]) == 0
    assert len(lines_of(capsys.readouterr().out)[0]["turns"][0]["steps"]) == 3
    assert main(["follow", name, "--until-idle", "--json"]) == 0
    assert lines_of(capsys.readouterr().out)[-1]["type"] == "turn.ended"
    assert main(["resume", name]) == 0
    assert "Nothing was in flight" in capsys.readouterr().out
    assert main(["journal", "verify", "--json"]) == 0
    assert lines_of(capsys.readouterr().out)[0]["clean"] is True


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ("last:0", "'last:0' is not a point in a conversation. Write ID:SEQ, with SEQ from 1."),
        ("last:x", "'last:x' is not a point in a conversation."),
        ("last:9999", "last has no fact 9999. Its last one is "),
        ("c_99999999999999999999", "c_99999999999999999999"),
        ("nothing", "nothing"),
    ],
)
def test_a_point_that_is_not_there(place: Place, capsys: pytest.CaptureFixture[str], point: str, said: str) -> None:
    assert process("run", "say hello", "--model", place.model(HELLO)).returncode == 0
    assert main(["show", point]) == 42
    assert said in capsys.readouterr().err


def test_damage_is_found(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert process("run", "say hello", "--model", place.model(HELLO)).returncode == 0
    database = place.home / "data" / "journal" / "journal.db"
    content = bytearray(database.read_bytes())
    content[-2000] ^= 1
    database.write_bytes(content)
    assert main(["journal", "verify"]) == 1
    assert "finding" in capsys.readouterr().out


def test_a_log_file(place: Place) -> None:
    place.home.mkdir()
    log = place.home / "log.txt"
    (place.home / "config.yaml").write_text(f"logging: {{level: error, file: {log}}}\n")
    done = process("run", "make it", "--model", place.model(WORK), "--max-steps", "1")
    assert done.returncode == 53
    assert " error   c_" in log.read_text()


def test_config_explain(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.home.mkdir()
    (place.home / "config.yaml").write_text("model: a/b\nproviders: {a: {headers: {X-Api-Key: 0123456789abcdef}}}\n")
    assert main(["config", "explain", "--json"]) == 0
    rows = {row["key"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["model"] == {
        "key": "model",
        "value": "a/b",
        "layer": "user",
        "where": f"{place.home / 'config.yaml'}:1",
    }
    assert rows["providers.a.headers.X-Api-Key"]["value"] == "012***def"
    assert main(["config", "explain", "loop.limits.max_steps"]) == 0
    assert capsys.readouterr().out.startswith("loop.limits.max_steps  200  default\nfiles read: ")


def test_doctor(place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk_0123456789abcdef")
    place.home.mkdir()
    (place.home / "config.yaml").write_text(
        "providers: {mine: {base_url: 'http://h', api_key_env: MINE}, own: {base_url: 'http://h'}}\n"
    )
    assert main(["doctor", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert {name: row["status"] for name, row in rows.items()}.items() >= {
        "sqlite": "ok", "rg": "ok", "folder data": "ok", "workspace": "ok", "configuration": "ok",
        "key groq": "ok", "key mine": "missing", "key own": "ok",
    }.items()  # fmt: skip
    assert rows["sandbox"]["status"] in ("ok", "missing"), "as the machine has it"
    assert rows["key groq"]["found"] == "gsk***def in GROQ_API_KEY"
    assert rows["key mine"]["remedy"].startswith("Set MINE,")
    assert all(row["remedy"] for row in rows.values() if row["status"] != "ok")
    assert not (place.home / "data").exists()


def test_doctor_names_what_is_broken(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.home.write_text("a file where a folder should be")
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "is not a folder" in said
    place.home.unlink()
    place.home.mkdir()
    (place.home / "config.yaml").write_text("modle: x\n")
    assert main(["doctor"]) == 1
    assert "Did you mean model?" in capsys.readouterr().out


def test_wire_decode(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    body = 'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop","index":0}]}\n\ndata: [DONE]\n\n'
    Path("body").write_text(body)
    for cut in ("whole", "bytes", "random:7"):
        assert main(["wire", "decode", "--dialect", "openai-chat", "--cut", cut, "body"]) == 0
        (line,) = lines_of(capsys.readouterr().out)
        assert (line["text"], line["finish"], line["verdict"]) == ("Hi", "stop", "complete")
    Path("records").write_text(json.dumps({"id": "r1", "dialect": "openai-chat", "stream": True, "body": body}) + "\n")
    assert main(["wire", "decode", "--records", "records"]) == 0
    assert lines_of(capsys.readouterr().out)[0]["id"] == "r1"
    assert main(["wire", "decode", "--dialect", "openai-chat", "--events", "body"]) == 0
    assert lines_of(capsys.readouterr().out)[-1]["part"] == "closed"
    assert main(["wire", "decode", "--dialect", "klingon", "body"]) == 2
    assert main(["wire", "decode", "--records", "records", "body"]) == 2


def test_the_demo_runs_to_its_end(place: Place) -> None:
    done = process("demo")
    assert done.returncode == 0, done.stderr
    assert '+    return re.sub(r"[^a-z0-9]+"' in done.stdout
    assert "turnwright trace c_" in done.stdout
