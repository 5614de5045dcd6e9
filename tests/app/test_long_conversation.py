"""A long conversation is opened by what is needed of it, and shown as it is read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from bench import long

from turnwright.app.clock import SystemClock
from turnwright.app.continuing import continued, with_caps_kept
from turnwright.cli import points
from turnwright.cli.main import main
from turnwright.config.load import load
from turnwright.journal.sqlite import SqliteJournal
from turnwright.schema.facts import ContextCompacted, Note, Recorded, TaskSoFar, TurnStarted
from turnwright.views.fold import folded
from turnwright.views.show import show_lines
from turnwright.views.text import plain
from turnwright.views.transcript import Transcript, entries, fold_transcript


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURNWRIGHT_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    asyncio.run(long.write(tmp_path / "data" / "journal", 7_000))
    return tmp_path


async def facts_in(home: Path) -> list[Recorded]:
    async with await SqliteJournal.open(home / "data" / "journal", clock=SystemClock()) as journal:
        return await journal.since(long.CONVERSATION)


def test_it_is_shown_page_by_page_as_in_one_go(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    facts = asyncio.run(facts_in(home))
    for first, page in ((1, 1), (200, 2_000), (10_000, 1)):
        if page == 1:
            facts = facts[:700]
        monkeypatch.setattr(points, "FIRST_PAGE", first)
        monkeypatch.setattr(points, "PAGE", page)
        whole = plain(show_lines(entries(folded(fold_transcript, Transcript(), facts))))
        assert main(["show", f"last:{facts[-1].seq}"]) == 0
        assert capfd.readouterr().out == whole
        facts = asyncio.run(facts_in(home))
    assert main(["show", "last", "--json"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == len(facts)
    assert main(["show", f"last:{len(facts) + 1}"]) == 42


async def test_it_is_taken_up_from_its_last_compaction(home: Path) -> None:
    total = len(await facts_in(home))
    taken_up = await continued(load(home), long.CONVERSATION)
    compacted = next(each for each in taken_up.facts if isinstance(each.fact, ContextCompacted))
    assert isinstance(compacted.fact, ContextCompacted)
    assert [each.seq for each in taken_up.facts] == [1, *range(compacted.fact.through_seq + 1, total + 1)]
    assert len(taken_up.facts) < total / 2


async def test_caps_of_a_turn_that_was_compacted_are_kept(home: Path) -> None:
    """The turn began before the cut: its caps stand in the compaction, and all of it is read."""
    async with (
        await SqliteJournal.open(home / "data" / "journal", clock=SystemClock()) as journal,
        await journal.acquire(long.CONVERSATION) as lease,
    ):
        begun = lease.last_seq + 1
        await journal.append(lease, [(1, TurnStarted(turn_id="t", text="go on", max_tokens=777))])
        await journal.append(lease, [(1, Note(code="test", text=str(number))) for number in range(5)])
        task = TaskSoFar(max_tokens=777, spent_tokens=5)
        await journal.append(lease, [(1, ContextCompacted(through_seq=begun + 3, digest="much", task=task))])
    taken_up = await continued(load(home), long.CONVERSATION)
    assert with_caps_kept(taken_up).settings.loop.limits.max_tokens == 777
    assert [each.seq for each in taken_up.facts] == list(range(1, begun + 7))
