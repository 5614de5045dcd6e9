"""One measurement in a process of its own: `python -m bench.worker MEASURE WHO BASE_URL COUNT` prints one JSON object.

CPU is that of this process, its threads and the kernel's work for it included.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeAlias

import msgspec

from bench import bare, following, ours
from turnwright import Recorded
from turnwright.app.clock import SystemClock
from turnwright.journal.sqlite import SqliteJournal
from turnwright.schema.facts import Fact, ModelReplied, StepStarted, ToolEnded, ToolStarted, Unknown
from turnwright.schema.live import TextDelta, ToolArgsDelta
from turnwright.session.replay.run import replay
from turnwright.wire.connection import Connection

Figures: TypeAlias = dict[str, float]
TASK = "Do what is to be done."
FIRST_STEPS = 5
"""They load modules and open connections: they are not counted."""


class Run(msgspec.Struct, frozen=True):
    base_url: str
    count: int
    home: Path


class Laps:
    """CPU and wall time at the start of each step."""

    def __init__(self) -> None:
        self.cpu_s: list[float] = []
        self.wall_s: list[float] = []

    def mark(self) -> None:
        self.cpu_s.append(time.process_time())
        self.wall_s.append(time.perf_counter())

    def figures(self, skipped: int = FIRST_STEPS) -> Figures:
        """Means of all steps but the first, and the CPU medians of the steps around step 10 and of the last."""
        cpu, wall = _gaps_ms(self.cpu_s[skipped:]), _gaps_ms(self.wall_s[skipped:])
        width = max(1, min(50, len(cpu) // 4))
        return {
            "cpu_ms": fmean(cpu),
            "wall_ms": fmean(wall),
            "early_ms": median(cpu[:width]),
            "late_ms": median(cpu[-width:]),
        }


def _gaps_ms(times_s: list[float]) -> list[float]:
    return [(after - before) * 1000 for before, after in pairwise(times_s)]


async def our_steps(run: Run) -> Figures:
    laps = Laps()
    ours.on_call.append(laps.mark)
    async with ours.agent(run.base_url, run.home) as agent:
        await agent.run(TASK)
    return laps.figures()


async def bare_steps(run: Run) -> Figures:
    laps = Laps()
    ours.on_call.append(laps.mark)
    async with bare.agent(run.base_url, run.home) as agent:
        await agent.run(TASK)
    return laps.figures()


async def committing_steps(run: Run) -> Figures:
    laps = Laps()
    ours.on_call.append(laps.mark)
    async with bare.committing_agent(run.base_url, run.home) as agent:
        await agent.run(TASK)
    return laps.figures()


async def our_watched(run: Run, *, real_tools: bool = False, config: str = "", turns: int = 1) -> Laps:
    """By the events of the last turn."""
    async with ours.agent(run.base_url, run.home, real_tools=real_tools, config=config) as agent:
        for _ in range(turns):
            laps = Laps()
            async for event in agent.stream(TASK):
                if isinstance(event, Recorded) and isinstance(event.fact, StepStarted):
                    laps.mark()
    return laps


async def bare_watched(run: Run, *, real_tools: bool = False, turns: int = 1) -> Laps:
    async with bare.agent(run.base_url, run.home, real_tools=real_tools) as agent:
        for _ in range(turns):
            laps = Laps()
            await agent.run(TASK, stepped=laps.mark)
    return laps


async def our_bash(run: Run) -> Figures:
    """As the bare loop runs it: with the user's own rights."""
    unconfined = "machine: {sandbox: off}\npermissions: {autonomy: 4}\n"
    return (await our_watched(run, real_tools=True, config=unconfined)).figures()


async def confined_bash(run: Run) -> Figures:
    """As by default."""
    return (await our_watched(run, real_tools=True)).figures()


async def bare_bash(run: Run) -> Figures:
    return (await bare_watched(run, real_tools=True)).figures()


async def our_naps(run: Run) -> Figures:
    side_by_side = "loop: {dispatch: {max_concurrent: 8}}\n"
    return (await our_watched(run, config=side_by_side, turns=2)).figures(skipped=0)


async def bare_naps(run: Run) -> Figures:
    return (await bare_watched(run, turns=2)).figures(skipped=0)


async def our_stream(run: Run) -> Figures:
    """CPU of a whole turn; the second, for the first loads what it needs."""
    async with ours.agent(run.base_url, run.home) as agent:
        for _ in range(2):
            began, chars = time.process_time(), 0
            async for event in agent.stream(TASK):
                if isinstance(event, TextDelta):
                    chars += len(event.text)
                elif isinstance(event, ToolArgsDelta):
                    chars += len(event.fragment)
            spent = time.process_time() - began
    assert chars >= run.count, f"{chars} characters came"
    return {"cpu_ms": spent * 1000, "us_each": spent / run.count * 1e6}


async def bare_stream(run: Run) -> Figures:
    chars = 0

    def hear(text: str) -> None:
        nonlocal chars
        chars += len(text)

    async with bare.agent(run.base_url, run.home) as agent:
        for _ in range(2):
            began = time.process_time()
            await agent.run(TASK, heard=hear)
            spent = time.process_time() - began
    return {"cpu_ms": spent * 1000, "us_each": spent / run.count * 1e6}


class Arrival:
    """When the first bytes came to any connection since `expect` was called."""

    def __init__(self) -> None:
        self._at_s: float | None = None
        received = Connection.data_received

        def noted(connection: Connection, data: bytes) -> None:
            self._at_s = self._at_s or time.perf_counter()
            received(connection, data)

        setattr(Connection, "data_received", noted)  # noqa: B010 - the one place that watches the wire from within

    def expect(self) -> None:
        self._at_s = None

    def ago_ms(self) -> float:
        assert self._at_s is not None, "something was said before bytes came"
        return (time.perf_counter() - self._at_s) * 1000


async def our_first(run: Run) -> Figures:
    arrival = Arrival()
    late_ms: list[float] = []
    async with ours.agent(run.base_url, run.home) as agent:
        for _ in range(run.count):
            arrival.expect()
            heard = [arrival.ago_ms() async for event in agent.stream(TASK) if isinstance(event, TextDelta)]
            late_ms.append(heard[0])
    return {"ms": median(late_ms[FIRST_STEPS:])}


async def our_follow(run: Run) -> Figures:
    """How late a follower in another process is."""
    facts, texts = await following.late_ms(run.base_url, run.home, TASK)
    return {"facts_p99_ms": _p99(facts), "texts_p99_ms": _p99(texts)}


def _p99(numbers: list[float]) -> float:
    return sorted(numbers)[min(len(numbers) - 1, len(numbers) * 99 // 100)]


async def bare_first(run: Run) -> Figures:
    arrival = Arrival()
    late_ms: list[float] = []
    heard: list[float] = []
    async with bare.agent(run.base_url, run.home) as agent:
        for _ in range(run.count):
            arrival.expect()
            heard.clear()
            await agent.run(TASK, heard=lambda _: heard.append(arrival.ago_ms()))
            late_ms.append(heard[0])
    return {"ms": median(late_ms[FIRST_STEPS:])}


async def our_fleet(run: Run) -> Figures:
    async with ours.agent(run.base_url, run.home) as agent:
        await agent.run(TASK)
        began, cpu = time.perf_counter(), time.process_time()
        answers = await asyncio.gather(*(agent.run(TASK) for _ in range(run.count)))
        spent = {"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}
    assert all(answer.ok for answer in answers)
    return spent


async def bare_fleet(run: Run) -> Figures:
    async with bare.agent(run.base_url, run.home) as agent:
        await agent.run(TASK)
        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(agent.run(TASK) for _ in range(run.count)))
        return {"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}


def resident_mib(field: str = "VmRSS") -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"/proc/self/status has no {field}")


async def our_idle(run: Run) -> Figures:
    """After one answered turn."""
    async with ours.agent(run.base_url, run.home, real_tools=True) as agent:
        await agent.run(TASK)
        return {"mib": resident_mib()}


async def our_peak(run: Run) -> Figures:
    """The most that a run with real tools takes, and by how much that is more than an idle runtime."""
    async with ours.agent(run.base_url, run.home, real_tools=True) as agent:
        before = resident_mib()
        answer = await agent.run(TASK)
        assert answer.ok, answer
        return {"mib": resident_mib("VmHWM"), "added_mib": resident_mib("VmHWM") - before}


async def our_crowd(run: Run) -> Figures:
    """Open conversations that have had a turn of some steps and wait for the next."""
    async with ours.session(run.base_url, run.home) as session, AsyncExitStack() as crowd:
        await crowd.enter_async_context(ours.conversation(session, TASK))
        before = resident_mib()
        for _ in range(run.count):
            await crowd.enter_async_context(ours.conversation(session, TASK))
        return {"mib": (resident_mib() - before) / run.count}


async def our_pages(run: Run) -> Figures:
    """What a run of long results leaves on disk, beside what it said, did and read."""
    async with ours.agent(run.base_url, run.home) as agent:
        answer = await agent.run(TASK)
        facts = await agent_facts(run.home, answer.conversation_id)
    said = sum(ours.PAGE_BYTES + len(fact.name) for fact in facts if isinstance(fact, ToolEnded))
    said += sum(len(fact.arguments) for fact in facts if isinstance(fact, ToolStarted))
    said += sum(len(fact.message.text) for fact in facts if isinstance(fact, ModelReplied))
    disk = sum(path.stat().st_size for path in (run.home / "data" / "journal").iterdir())
    return {"disk_mib": disk / 2**20, "said_mib": said / 2**20}


async def agent_facts(home: Path, conversation_id: str) -> list[Fact | Unknown]:
    async with await SqliteJournal.open(home / "data" / "journal", clock=SystemClock(), read_only=True) as journal:
        return [recorded.fact for recorded in await journal.since(conversation_id)]


async def our_replay(run: Run) -> Figures:
    """A recorded run, executed again: how long it took then, and now."""
    async with ours.agent(run.base_url, run.home) as agent:
        answer = await agent.run(TASK)
    async with await SqliteJournal.open(run.home / "data" / "journal", clock=SystemClock(), read_only=True) as journal:
        facts = await journal.since(answer.conversation_id)
    took_s = []
    for _ in range(3):
        began = time.perf_counter()
        again = await replay(facts)
        took_s.append(time.perf_counter() - began)
        assert again.identical, again.divergence
    return {"again_s": min(took_s), "then_s": again.recorded_ms / 1000}


Measure: TypeAlias = Callable[[Run], Coroutine[Any, Any, Figures]]
MEASURES: Mapping[str, Mapping[str, Measure]] = {
    "steps": {"our": our_steps, "bare": bare_steps, "committing": committing_steps},
    "bash": {"our": our_bash, "confined": confined_bash, "bare": bare_bash},
    "naps": {"our": our_naps, "bare": bare_naps},
    "stream": {"our": our_stream, "bare": bare_stream},
    "first": {"our": our_first, "bare": bare_first},
    "fleet": {"our": our_fleet, "bare": bare_fleet},
    "idle": {"our": our_idle},
    "peak": {"our": our_peak},
    "follow": {"our": our_follow},
    "crowd": {"our": our_crowd},
    "pages": {"our": our_pages},
    "replay": {"our": our_replay},
}


def main(who: str, measure: str, base_url: str, count: str) -> None:
    with tempfile.TemporaryDirectory(prefix="turnwright-bench-") as folder:
        figures = asyncio.run(MEASURES[measure][who](Run(base_url, int(count), Path(folder))))
    print(msgspec.json.encode(figures).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
