"""What it costs to decide about a call, beside parsing the same line with bash itself."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from turnwright.app.permitted_tools import RealGround
from turnwright.schema.permissions import Rule, RuleLayer
from turnwright.session.permissions.decide import Policy, decide

LINES = {
    "one word": "true",
    "a pipeline of four": "cd src && git diff --stat | grep -v test | head -n 20 > changes.txt",
    "ten wrapped commands": "; ".join(["timeout 5 env A=1 xargs -0 sh -c 'ls && git status'"] * 5),
}
RULES = RuleLayer(
    name="user", rules=tuple(Rule(tool="bash", pattern=f"tool{number} *", action="allow") for number in range(30))
)


def costs_us(line: str, count: int) -> tuple[float, float]:
    """Ours and `bash -n`, one after the other each time."""
    policy, ground = Policy(layers=(RULES,)), RealGround(Path.cwd())

    def ours() -> None:
        decide(policy, "bash", "runs", {"command": line}, ground)

    def bash() -> None:
        subprocess.run(["bash", "-n", "-c", line], check=True)

    ours()
    spent = [(_us(ours), _us(bash)) for _ in range(count)]
    return median(one for one, _ in spent), median(other for _, other in spent)


def _us(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1_000_000
