from __future__ import annotations

import asyncio

import pytest

from turnwright.kernel.ports import Clock, Ids
from turnwright.schema.ids import CONVERSATION_ID
from turnwright.testing.clock import FakeClock
from turnwright.testing.ids import CountingIds


async def test_nothing_passes_until_told() -> None:
    clock = FakeClock(start_s=5, wall_ms=1_000)
    port: Clock = clock
    log: list[tuple[str, float]] = []

    async def sleeper(name: str, *delays: float) -> None:
        for delay in delays:
            await port.sleep(delay)
            log.append((name, clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper("a", 1, 1, 1))
        group.create_task(sleeper("b", 2.5))
        port.call_later(1.5, lambda: log.append(("timer", clock.monotonic())))
        port.call_later(0.5, lambda: log.append(("cancelled", 0))).cancel()
        await clock.advance(2)
        assert log == [("a", 6), ("timer", 6.5), ("a", 7)]
        assert (clock.monotonic(), clock.wall_ms(), clock.pending) == (7, 3_000, [7.5, 8])
        await clock.advance(10)
    assert log[3:] == [("b", 7.5), ("a", 8)]
    assert (clock.monotonic(), clock.pending) == (17, [])


async def test_a_cancelled_sleep_leaves_no_timer() -> None:
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(9))
    await clock.advance(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.pending == []


async def test_auto_jumps_when_every_task_waits() -> None:
    clock = FakeClock(auto=True)
    woken: list[float] = []

    async def work(delay_s: float) -> None:
        await clock.sleep(delay_s)
        for _ in range(50):
            await asyncio.sleep(0)
        woken.append(clock.monotonic())
        await clock.sleep(0.5)
        woken.append(clock.monotonic())

    await asyncio.gather(work(3600), work(0.2), work(1))
    assert woken == [0.2, 0.7, 1, 1.5, 3600, 3600.5]


async def test_auto_can_leave_real_time_to_the_world() -> None:
    clock = FakeClock(auto=True, idle_s=0.2)

    async def deadline() -> str:
        await clock.sleep(60)
        return "deadline"

    async def process() -> str:
        started = await asyncio.create_subprocess_exec("true")
        await started.wait()
        return "process"

    done, waiting = await asyncio.wait(
        [asyncio.create_task(deadline()), asyncio.create_task(process())], return_when=asyncio.FIRST_COMPLETED
    )
    assert [task.result() for task in done] == ["process"]
    for task in waiting:
        task.cancel()


def test_ids_are_foretold() -> None:
    ids = CountingIds()
    port: Ids = ids
    made = [port.new("turn"), port.new("turn"), port.new("call"), port.new("conversation")]
    assert made == ["turn-1", "turn-2", "call-1", "c_00000000000000000001"]
    assert CONVERSATION_ID.fullmatch(made[-1])
    assert CountingIds(start=100).new("inbox") == "inbox-101"
