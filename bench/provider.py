"""The models of the measures: `turnwright.testing.fake_provider` in a process of its own, so that it costs us nothing.

`python -m bench.provider PLAN COUNT` prints its base URL and serves until its stdin closes.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from turnwright.providers.script import Call, Step
from turnwright.testing.fake_provider import fake_provider

SENTENCE = "I will read the module that defines it first, and then change what its callers expect of it."
MODEL_S = 0.05
DRIP_S = 0.0005
DONE = Step(text="All is done.", repeat="forever")


def acting(count: int, call: Callable[[int], Call], text: str = "", delay_s: float = 0.0) -> list[Step]:
    """So many replies that call a tool, each in its own way, or a guard would see a loop; then one that does not.
    Arguments come in 16-character pieces."""
    return [Step(text=text, calls=[call(index)], delay_s=delay_s, chunk="words") for index in range(count)] + [DONE]


def noop(index: int) -> Call:
    return Call(name="noop", arguments={"index": index})


def look(index: int) -> Call:
    return Call(name="look", arguments={"path": "src/service.py", "line": index})


def page(index: int) -> Call:
    return Call(name="page", arguments={"index": index})


def bash(index: int) -> Call:
    """`true`, and a word without a process of its own, by which one call differs from the next."""
    return Call(name="bash", arguments={"command": f"true; echo {index}"})


def flood(mebibytes: int) -> list[Step]:
    command = f"head -c {mebibytes * 1024 * 1024} /dev/zero | tr '\\0' x"
    return acting(1, lambda _: Call(name="bash", arguments={"command": command, "timeout_s": 600}))


def long_argument(size: int) -> list[Step]:
    return acting(1, lambda _: Call(name="swallow", arguments={"text": words(size // 8)}))


def words(count: int) -> str:
    """Each another one, or a guard would see a reply that repeats itself."""
    return "".join(f"word{number % 1000:03d} " for number in range(count))


PLANS: Mapping[str, Callable[[int], list[Step]]] = {
    "least": lambda count: acting(count, noop),
    "step": lambda count: acting(count, look, SENTENCE),
    "bash": lambda count: acting(count, bash, SENTENCE),
    "fleet": lambda count: acting(count, noop, delay_s=MODEL_S),
    "naps": lambda count: [Step(calls=[Call(name="nap", arguments={"index": each}) for each in range(count)]), DONE],
    "text": lambda count: [Step(text=words(count), repeat="forever")],
    "drip": lambda count: [Step(text=words(count), gap_s=DRIP_S, repeat="forever")],
    "pages": lambda count: acting(count, page),
    "args": long_argument,
    "flood": flood,
}
"""A model by name, for a size."""


@contextmanager
def serving(plan: str, count: int) -> Iterator[str]:
    """Its base URL."""
    command = [sys.executable, "-m", "bench.provider", plan, str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


async def _serve(plan: str, count: int) -> None:
    async with fake_provider(PLANS[plan](count)) as base_url:
        print(base_url, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2])))
