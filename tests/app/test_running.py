"""A turn run to its end with nobody watching."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from turnwright import Agent
from turnwright.app.clock import SystemClock
from turnwright.journal.sqlite import SqliteJournal
from turnwright.providers.script import Call, Step
from turnwright.providers.scripted import ScriptedModel
from turnwright.schema.facts import TurnEnded


def agent(folder: Path, *tools: object) -> Agent:
    (folder / "workspace").mkdir()
    model = ScriptedModel([Step(calls=[Call(name="wait")]), Step(text="Done.")])
    return Agent(model, tools=list(tools), workspace=folder / "workspace", data_dir=folder / "data")  # type: ignore[arg-type]


async def test_an_unwatched_turn_gives_its_answer(tmp_path: Path) -> None:
    async def wait() -> str:
        """Does not wait."""
        return "ok"

    answer = await agent(tmp_path, wait).run("Go.")
    assert (answer.reason, answer.text, answer.steps) == ("stop", "Done.", 2)


async def test_cancelling_it_stops_the_turn_and_says_so(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def wait() -> str:
        """Waits for long."""
        started.set()
        await asyncio.sleep(60)
        return "never"

    running = asyncio.ensure_future(agent(tmp_path, wait).run("Go."))
    await asyncio.wait_for(started.wait(), 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 2)
    async with await SqliteJournal.open(tmp_path / "data" / "journal", clock=SystemClock(), read_only=True) as journal:
        (summary,) = await journal.conversations()
        last = (await journal.tail(summary.id, 1))[0].fact
    assert isinstance(last, TurnEnded) and last.reason == "cancelled"
