from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator

import pytest

from turnwright.schema.facts import Note, StepStarted, TurnStarted
from turnwright.testing.crash import Crash, CrashPlan, crashing
from turnwright.testing.ports import MemoryRecord

FACTS = (TurnStarted(text="hi"), StepStarted(index=0))


async def test_a_first_run_lists_the_moments() -> None:
    plan = CrashPlan()
    record = crashing(MemoryRecord(), plan, "record")
    assert list(await record(*FACTS)) == [1, 2]
    await record(Note(code="c", text="t"))
    assert plan.passed == [
        "before record turn.started+step.started",
        "after record turn.started+step.started",
        "before record note",
        "after record note",
    ]


async def test_facts_give_the_name_however_deep_they_lie() -> None:
    """As a journal takes them: with a lease, and each with its time."""

    class Journal:
        async def append(self, lease: str, facts: list[tuple[int, object]]) -> int:
            return len(lease) + len(facts)

    plan = CrashPlan()
    await crashing(Journal(), plan, "append").append("lease", [(1, FACTS[0]), (2, FACTS[1])])
    assert plan.passed[0] == "before append turn.started+step.started"


@pytest.mark.parametrize(("at", "kept"), [(0, 0), (1, 2), (2, 2), (3, 3), ("after record note", 3)])
async def test_dying_in_turn(at: int | str, kept: int) -> None:
    memory = MemoryRecord()
    plan = CrashPlan(at=at)
    record = crashing(memory, plan, "record")
    with pytest.raises(Crash):
        await record(*FACTS)
        await record(Note(code="c", text="t"))
    with pytest.raises(Crash, match="dead since"):
        await record(Note(code="c", text="written by a finally block"))
    assert len(memory.facts) == kept


async def test_dying_at_the_second_of_a_name() -> None:
    memory = MemoryRecord()
    record = crashing(memory, CrashPlan(at="before record note", nth=2), "record")
    await record(Note(code="c", text="1"))
    with pytest.raises(Crash):
        await record(Note(code="c", text="2"))
    assert len(memory.facts) == 1


class Port:
    kept = "as it is"

    async def run(self, name: str, arguments: dict[str, int]) -> str:
        return f"{name}{len(arguments)}"

    def offered(self, mode: str) -> list[str]:
        return [mode]

    async def attempt(self, route: object) -> AsyncGenerator[int, None]:
        del route
        yield 1
        yield 2


async def test_any_port_can_be_wrapped() -> None:
    plan = CrashPlan()
    port = crashing(Port(), plan, "run", "attempt", "offered")
    assert await port.run("read", {}) == "read0"
    assert port.offered("plan") == ["plan"]
    assert [item async for item in port.attempt(None)] == [1, 2]
    assert port.kept == "as it is"
    assert plan.passed == [
        "before run read",
        "after run read",
        "before offered plan",
        "after offered plan",
        "before attempt",
        "at attempt",
        "at attempt",
        "after attempt",
    ]


def test_kill_is_a_real_death() -> None:
    program = (
        "from turnwright.testing.crash import CrashPlan\n"
        "try:\n    CrashPlan(at='x', how='kill').reached('x')\nfinally:\n    print('never')"
    )
    died = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=20)
    assert (died.returncode, died.stdout) == (-9, b"")
