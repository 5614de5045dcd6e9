"""Sessions of other agents, and our own exported conversations, come in as conversations like any other."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnwright.app.clock import SystemClock
from turnwright.app.importing import claude_code, codex
from turnwright.app.importing.events import facts_of
from turnwright.app.importing.files import format_of, imported
from turnwright.cli.main import main
from turnwright.journal.memory import MemoryJournal
from turnwright.journal.sqlite import SqliteJournal
from turnwright.schema.errors import InputError
from turnwright.schema.facts import BlobRef, Recorded, TurnEnded, encode_line

FILES = Path(__file__).parent / "session_files"
SESSIONS = sorted(FILES.glob("*.jsonl"))
NOWHERE = BlobRef(sha256="0" * 64, size_bytes=0)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("TURNWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


def came_in(file: Path, capfd: pytest.CaptureFixture[str], *options: str) -> dict[str, object]:
    capfd.readouterr()
    assert main(["import", str(file), "--json", *options]) == 0
    said: dict[str, object] = json.loads(capfd.readouterr().out)
    return said


@pytest.mark.parametrize("file", SESSIONS, ids=lambda file: file.stem)
def test_a_session_opens_in_show(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Goldens: `TURNWRIGHT_TEST_WRITE_GOLDENS=1` writes them anew."""
    came_in(file, capfd)
    assert main(["show", "last", "--full"]) == 0
    seen = capfd.readouterr().out
    golden = file.with_suffix(".shown.txt")
    if os.environ.get("TURNWRIGHT_TEST_WRITE_GOLDENS") == "1":
        golden.write_text(seen)
    assert seen == golden.read_text()
    assert main(["journal", "verify"]) == 0


def test_lines_that_are_not_retold_are_counted_and_kept(capfd: pytest.CaptureFixture[str], home: Path) -> None:
    file = FILES / "claude-code-2.jsonl"
    said = came_in(file, capfd)
    assert said["left_out"] == {
        "file-history-snapshot": 1,
        "from-the-future": 1,
        "of a subagent": 1,
        "of another branch": 1,
        "progress": 1,
        "system": 1,
        "unreadable": 1,
    }
    assert main(["show", "last", "--json"]) == 0
    [origin] = [json.loads(line) for line in capfd.readouterr().out.splitlines() if '"code":"imported"' in line]
    assert origin["data"] == {
        "agent": "claude-code",
        "version": "2.1.63",
        "session_id": "5d0f7a52-9a51-4a2e-8f1c-7d4d1d5f0a11",
    }

    async def kept() -> bytes:
        async with await SqliteJournal.open(home / "data" / "journal", clock=SystemClock(), read_only=True) as journal:
            return await journal.blob(origin["attachment"]["sha256"])

    import asyncio

    assert asyncio.run(kept()) == file.read_bytes()


@pytest.mark.parametrize(
    ("name", "last_result"),
    [("claude-code-2", "doesn't want to proceed"), ("codex-0.6x", "interrupted"), ("codex-0.1x", "7")],
)
def test_it_goes_on_as_a_conversation_of_ours(
    name: str, last_result: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With another model: reasoning of the other agent's provider is not sent to it."""
    script = tmp_path / "script.yaml"
    script.write_text(
        f'- expect: {{user_contains: and now, result_contains: "{last_result}"}}\n  calls: [{{ls: {{path: .}}}}]\n'
        "- text: Gone on.\n"
    )
    said = came_in(FILES / f"{name}.jsonl", capfd)
    model = ["--model", f"scripted/{script}", "--cwd", str(tmp_path / "work"), "--output", "json"]
    assert main(["run", "--resume", str(said["conversation_id"]), "and now?", *model]) == 0
    assert json.loads(capfd.readouterr().out)["text"] == "Gone on."
    assert main(["journal", "verify"]) == 0


@pytest.mark.parametrize("name", ["claude-code-2", "codex-0.6x"])
def test_it_forks_into_a_conversation_that_runs(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("- {calls: [{name: ls, arguments: {path: .}}]}\n- {text: Gone on in the fork.}\n")
    came = str(came_in(FILES / f"{name}.jsonl", capfd)["conversation_id"])
    assert main(["show", came, "--json"]) == 0
    before = capfd.readouterr().out.splitlines()
    model = ["--model", f"scripted/{script}", "--cwd", str(tmp_path / "work"), "--output", "json"]
    assert main(["run", "--fork", came, "and now?", *model]) == 0
    said = json.loads(capfd.readouterr().out)
    assert (said["text"], said["conversation_id"] == came) == ("Gone on in the fork.", False)
    assert main(["show", came, "--json"]) == 0
    assert capfd.readouterr().out.splitlines() == before
    assert main(["journal", "verify"]) == 0


def test_what_came_in_does_not_come_in_twice(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first = came_in(SESSIONS[0], capfd)
    again = came_in(SESSIONS[0], capfd)
    assert again == {**first, "already_there": True}
    assert came_in(SESSIONS[0], capfd, "--as-new")["conversation_id"] != first["conversation_id"]
    grown = tmp_path / "grown.jsonl"
    grown.write_bytes(SESSIONS[0].read_bytes() + b'{"type":"progress"}\n')
    assert came_in(grown, capfd)["conversation_id"] != first["conversation_id"]


async def test_secrets_stay_outside() -> None:
    key = "sk-ant-api03-AbCdEf0123456789AbCdEf0123456789"
    line = {
        "type": "user", "uuid": "u", "sessionId": "s", "timestamp": "2026-01-01T00:00:00Z",
        "message": {"role": "user", "content": f"use {key}"},
    }  # fmt: skip
    journal = MemoryJournal(clock=SystemClock())
    done = await imported(journal, json.dumps(line).encode())
    facts = await journal.since(done.conversation_id)
    kept = b"".join([encode_line(one) for one in facts] + [*journal.memory.blobs.values()])
    assert b"sk-***789" in kept
    assert key.encode() not in kept


def exported(where: Path, home: Path, *, until: str = "") -> bytes:
    file = where / "exported.jsonl"
    assert main(["export", f"last{until}", "--format", "turnwright", "--to", str(file)]) == 0
    return file.read_bytes()


def bodies(facts: list[Recorded]) -> list[tuple[int, int, int, bytes]]:
    return [(one.seq, one.at, one.schema_version, one.body) for one in facts]


def test_our_own_format_brings_everything_along(
    tmp_path: Path, home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script.yaml").write_text(
        "- calls: [{bash: {command: 'seq 1 20000'}}]\n- fault: {is: http_error, status: 500}\n- text: Done.\n"
    )
    assert main(["run", "count", "--model", f"scripted/{tmp_path / 'script.yaml'}", "--output", "json"]) == 0
    result = json.loads(capfd.readouterr().out.splitlines()[-1])
    content = exported(tmp_path, home)
    assert main(["show", "last", "--json"]) == 0
    here = capfd.readouterr().out
    monkeypatch.setenv("TURNWRIGHT_HOME", str(tmp_path / "elsewhere"))
    file = tmp_path / "exported.jsonl"
    said = came_in(file, capfd)
    assert (said["conversation_id"], said["format"]) == (result["conversation_id"], "turnwright")
    assert main(["show", "last", "--json"]) == 0
    assert capfd.readouterr().out == here
    assert main(["journal", "verify"]) == 0
    assert exported(tmp_path, home) == content
    assert came_in(file, capfd)["already_there"] is True
    other = came_in(file, capfd, "--as-new")
    assert other["conversation_id"] != said["conversation_id"]


def test_another_conversation_of_that_name_is_not_overwritten(
    tmp_path: Path, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    came_in(FILES / "codex-0.1x.jsonl", capfd)
    content = exported(tmp_path, home, until=":4")
    file = tmp_path / "part.jsonl"
    file.write_bytes(content)
    assert came_in(file, capfd)["already_there"] is True
    capfd.readouterr()
    assert main(["import", str(FILES.parent / "test_importing.py")]) == 42
    assert "test_importing.py: This is no conversation of a format that is known." in capfd.readouterr().err


async def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    journal = MemoryJournal(clock=SystemClock())
    done = await imported(journal, (FILES / "codex-0.6x.jsonl").read_bytes())
    from turnwright.views.document import document_lines

    facts = await journal.since(done.conversation_id)
    content = b"".join([piece async for piece in document_lines(facts, journal.blob, "0")])
    for place in range(0, len(content), max(1, len(content) // 60)):
        flipped = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        with pytest.raises(InputError):
            await imported(MemoryJournal(clock=SystemClock()), flipped, named="turnwright")
        with pytest.raises(InputError):
            await imported(MemoryJournal(clock=SystemClock()), content[:place], named="turnwright")
    other = MemoryJournal(clock=SystemClock())
    await imported(other, content)
    assert bodies(await other.since(done.conversation_id)) == bodies(facts)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
LINES = [line for file in SESSIONS for line in file.read_bytes().splitlines()]


@st.composite
def bent_lines(draw: st.DrawFn) -> bytes:
    """A real line with one of its values, at any depth, replaced by something else, or cut."""
    raw = draw(st.sampled_from(LINES))
    try:
        line = json.loads(raw)
    except ValueError:
        return raw
    at = line
    while isinstance(at, dict | list) and at:
        key = draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not isinstance(at[key], dict | list) or draw(st.booleans()):
            at[key] = draw(JSON)
            break
        at = at[key]
    bent = json.dumps(line).encode()
    return bent[: draw(st.integers(0, len(bent)))] if draw(st.integers(0, 9)) == 0 else bent


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(bent_lines() | st.binary(max_size=20), max_size=12), st.sampled_from(["claude-code", "codex"]))
def test_no_file_is_too_strange(lines: list[bytes], name: str) -> None:
    try:
        format_of(lines)
    except InputError:
        pass
    reader = {"claude-code": claude_code.read, "codex": codex.read}[name]
    session = reader(lines)
    facts = [fact for _, fact in facts_of(session, NOWHERE, lambda turn: f"t_{turn}")]
    begun = sum(type(fact).__name__ == "TurnStarted" for fact in facts)
    assert begun == sum(isinstance(fact, TurnEnded) for fact in facts)
