"""`python -m bench.soak [--turns N]`: many turns in one process, and what each thousand of them leaves behind.

Five turns to a conversation: the first runs a command, the others answer. The model is a server in another process, so
connections, streams, journal, watchers and wardens are all real. Memory is read after a garbage collection; a slope is
that of the least-squares line through the second half, when caches have their size.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import msgspec

from bench import ours
from bench.provider import serving

TURNS_EACH = 5
SAMPLES = 40


class Sample(msgspec.Struct, frozen=True):
    turns: int
    memory_mib: float
    descriptors: int
    threads: int
    tasks: int
    children: int


LEAKS_MOST = {"memory_mib": 1.0, "descriptors": 0.5, "threads": 0.5, "tasks": 0.5, "children": 0.5}
"""Per thousand turns."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--turns", type=int, default=10_000)
    turns: int = parser.parse_args().turns
    began = time.perf_counter()
    with serving("bash", 1) as base_url, tempfile.TemporaryDirectory(prefix="turnwright-soak-") as home:
        samples = asyncio.run(soak(base_url, Path(home), turns))
    first, last = samples[0], samples[-1]
    print(f"{turns} turns in {time.perf_counter() - began:.0f} s")
    print(f"{'':12} {'first':>10} {'last':>10} {'per 1,000 turns':>16}   at most")
    leaking = False
    for name, most in LEAKS_MOST.items():
        slope = 1000 * slope_of([(each.turns, float(getattr(each, name))) for each in samples[len(samples) // 2 :]])
        leaking |= slope > most
        verdict = "held" if slope <= most else "MISSED"
        print(f"{name:12} {getattr(first, name):10.1f} {getattr(last, name):10.1f} {slope:+16.3f}   {most:g} {verdict}")
    return int(leaking)


async def soak(base_url: str, home: Path, turns: int) -> list[Sample]:
    samples = []
    every = max(TURNS_EACH, turns // SAMPLES)
    async with ours.agent(base_url, home, real_tools=True) as agent:
        conversation_id: str | None = None
        for done in range(1, turns + 1):
            answer = await agent.run("Do what is to be done.", conversation_id=conversation_id)
            assert answer.reason == "stop", answer
            conversation_id = None if done % TURNS_EACH == 0 else answer.conversation_id
            if done % every == 0:
                samples.append(sample(done))
    return samples


def sample(turns: int) -> Sample:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return Sample(
        turns=turns,
        memory_mib=pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        descriptors=len(os.listdir("/proc/self/fd")),
        threads=threading.active_count(),
        tasks=len(asyncio.all_tasks()),
        children=len(children),
    )


def slope_of(points: list[tuple[int, float]]) -> float:
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


if __name__ == "__main__":
    sys.exit(main())
