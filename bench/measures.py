"""What is measured, and against which target (SPEC W1, W2)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench import cold, encoding, normalising, opening, permissions, undoing
from bench.confining import OVER_PLAIN_MS_MAX
from bench.provider import serving
from bench.table import Row
from turnwright.providers.dialects import DIALECTS

Figures = dict[str, float]


class Bench(msgspec.Struct, frozen=True, kw_only=True):
    repeats: int
    quick: bool

    def count(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def best(self, measure: str, plan: str, *counts: int, whos: tuple[str, ...] = ("our", "bare")) -> list[Figures]:
        """The least of every figure over the repeats: for each count, for each who. Their turns are interleaved, so
        that whatever else the machine does falls on all of them alike."""
        with ExitStack() as stack:
            urls = {count: stack.enter_context(serving(plan, count)) for count in counts}
            cases = [(who, count) for count in counts for who in whos]
            found: list[Figures] = [{} for _ in cases]
            for _ in range(self.repeats):
                for case, (who, count) in zip(found, cases, strict=True):
                    for name, value in _worker(who, measure, urls[count], count).items():
                        case[name] = min(value, case.get(name, value))
        return found


def _worker(who: str, measure: str, base_url: str, count: int) -> Figures:
    command = [sys.executable, "-m", "bench.worker", who, measure, base_url, str(count)]
    with tempfile.TemporaryDirectory(prefix="turnwright-bench-home-") as home:
        done = subprocess.run(command, env=cold.environment(Path(home)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[2:])} failed:\n{done.stderr}")
    return msgspec.json.decode(done.stdout, type=Figures)


def steps(bench: Bench) -> Iterator[Row]:
    count = bench.count(200, 60)
    for plan, name in (("step", "a sentence and a call"), ("least", "nothing but a call")):
        ours, bare, committing = bench.best("steps", plan, count, whos=("our", "bare", "committing"))
        yield Row(
            measure=f"step with a no-op tool ({name}), CPU",
            unit="ms",
            ours=ours["cpu_ms"],
            beside=bare["cpu_ms"],
            ratio_most=2,
        )
        yield Row(
            measure="  the same beside a bare loop with two commits, CPU",
            unit="ms",
            ours=ours["cpu_ms"],
            beside=committing["cpu_ms"],
            beside_is="and commits",
        )
        yield Row(measure="  the same, wall", unit="ms", ours=ours["wall_ms"], beside=bare["wall_ms"], most=2.5)
    ours, confined, bare = bench.best("bash", "bash", bench.count(100, 30), whos=("our", "confined", "bare"))
    plain_ms = ours["wall_ms"]
    yield Row(measure="step with `bash true`, wall", unit="ms", ours=plain_ms, beside=bare["wall_ms"], most=5)
    yield Row(
        measure="  the same in a sandbox, wall",
        unit="ms",
        ours=confined["wall_ms"],
        beside=plain_ms,
        beside_is="no sandbox",
        most=round(plain_ms + OVER_PLAIN_MS_MAX, 1),
    )


def growth(bench: Bench) -> Iterator[Row]:
    count = bench.count(1000, 250)
    ours, bare = bench.best("steps", "least", count)
    for who, found, most in (("ours", ours, 1.2), ("bare loop", bare, None)):
        yield Row(
            measure=f"CPU of step {count}, {who}",
            unit="ms",
            ours=found["late_ms"],
            beside=found["early_ms"],
            beside_is="step 10",
            ratio_most=most,
        )
    for who, cost_us in (("ours", encoding.ours_us), ("bare loop", encoding.bare_us)):
        yield Row(
            measure=f"encoding the request of step {count}, {who}",
            unit="us",
            ours=min(cost_us(count) for _ in range(3)),
            beside=min(cost_us(10) for _ in range(3)),
            beside_is="step 10",
        )


def deciding(bench: Bench) -> Iterator[Row]:
    for what, line in permissions.LINES.items():
        ours, beside = permissions.costs_us(line, bench.count(300, 50))
        yield Row(
            measure=f"permission decision, {what}",
            unit="us",
            ours=ours,
            beside=beside,
            beside_is="bash -n",
            most=1_000,
        )


def streaming(bench: Bench) -> Iterator[Row]:
    for plan, name, count in (
        ("text", "in a burst", bench.count(20_000, 5_000)),
        ("drip", "each alone", bench.count(1_500, 400)),
    ):
        ours, bare = bench.best("stream", plan, count)
        yield Row(
            measure=f"text delta, CPU ({count:,} {name})",
            unit="us",
            ours=ours["us_each"],
            beside=bare["us_each"],
            ratio_most=1.5,
        )
    ours_1, bare_1, ours_2, bare_2 = bench.best("stream", "args", 1_000_000, 2_000_000)
    yield Row(
        measure="tool argument of 2 MB in small pieces, CPU", unit="ms", ours=ours_2["cpu_ms"], beside=bare_2["cpu_ms"]
    )
    for who, whole, half, most in (("ours", ours_2, ours_1, 2.2), ("bare loop", bare_2, bare_1, None)):
        yield Row(
            measure=f"  the same against 1 MB, {who}",
            unit="ms",
            ours=whole["cpu_ms"],
            beside=half["cpu_ms"],
            beside_is="1 MB",
            ratio_most=most,
        )
    ours, bare = bench.best("first", "text", bench.count(100, 30))
    yield Row(measure="first text out after its bytes came", unit="ms", ours=ours["ms"], beside=bare["ms"], most=0.5)


def together(bench: Bench) -> Iterator[Row]:
    ours, bare = bench.best("naps", "naps", 8)
    yield Row(
        measure="step with 8 tools of 200 ms, wall", unit="ms", ours=ours["wall_ms"], beside=bare["wall_ms"], most=215
    )
    with serving("fleet", 20) as url:
        found: dict[str, list[Figures]] = {"our": [], "bare": []}
        conversations = bench.count(100, 30)
        for _ in range(bench.repeats):
            for who, figures in found.items():
                figures.append(_worker(who, "fleet", url, conversations))
    ours, bare = (min(figures, key=lambda each: each["wall_s"]) for figures in found.values())
    yield Row(
        measure=f"{conversations} conversations x 20 steps, model of 50 ms, wall",
        unit="s",
        ours=ours["wall_s"],
        beside=bare["wall_s"],
        most=1.4,
    )
    yield Row(measure="  the same, CPU", unit="s", ours=ours["cpu_s"], beside=bare["cpu_s"])


def starting(bench: Bench) -> Iterator[Row]:
    repeats = 2 * bench.repeats + 4
    bare, imported, version = cold.fastest_ms(
        repeats,
        cold.to_the_end(sys.executable, "-c", "pass"),
        cold.to_the_end(sys.executable, "-c", "import turnwright"),
        cold.to_the_end(*cold.TURNWRIGHT, "--version"),
    )
    for name, took in (("import turnwright", imported), ("turnwright --version", version)):
        yield Row(
            measure=f"`{name}` beyond the interpreter's start",
            unit="ms",
            ours=took - bare,
            beside=bare,
            beside_is="interpreter",
            most=60,
        )
    ours, script = cold.fastest_ms(
        repeats,
        cold.to_the_first_request(cold.run_command),
        cold.to_the_first_request(lambda base_url: [*cold.URLLIB, base_url]),
    )
    yield Row(
        measure="process start to first request on the wire",
        unit="ms",
        ours=ours,
        beside=script,
        beside_is="urllib script",
        most=180,
    )


def memory(bench: Bench) -> Iterator[Row]:
    def measured(measure: str, plan: str, size: int, count: int, figure: str) -> float:
        with serving(plan, size) as url:
            return _worker("our", measure, url, count)[figure]

    steps, flood, crowd = bench.count(200, 60), bench.count(2048, 256), bench.count(100, 40)
    yield Row(measure="memory, idle after a turn", unit="MiB", ours=measured("idle", "text", 3, 1, "mib"), most=60)
    yield Row(
        measure=f"memory, most in a run of {steps} steps",
        unit="MiB",
        ours=measured("peak", "bash", steps, 1, "mib"),
        most=80,
    )
    yield Row(
        measure="memory, each idle conversation (20 steps behind it)",
        unit="MiB",
        ours=measured("crowd", "step", 20, crowd, "mib"),
        most=1,
    )
    yield Row(
        measure=f"memory, added by {flood} MiB of a tool's output",
        unit="MiB",
        ours=measured("peak", "flood", flood, 1, "added_mib"),
        most=32,
    )


def following(bench: Bench) -> Iterator[Row]:
    """No best of several: it is the worst that counts."""
    for plan, count, figure, what in (
        ("drip", bench.count(1_500, 400), "texts_p99_ms", "a piece of text"),
        ("least", bench.count(200, 60), "facts_p99_ms", "a fact"),
    ):
        with serving(plan, count) as url:
            late_ms = max(_worker("our", "follow", url, count)[figure] for _ in range(bench.repeats))
        yield Row(measure=f"{what} at a follower in another process, p99", unit="ms", ours=late_ms, most=20)


def lasting(bench: Bench) -> Iterator[Row]:
    """What long conversations cost: to look at, to run again, to keep."""
    count = bench.count(100_000, 20_000)
    for words, what in ((("show", "last"), "show, first screen"), (("resume", "last"), "resume")):
        took_ms, mib = opening.fastest(words, count, bench.repeats)
        yield Row(measure=f"{what}, of {count:,} facts", unit="ms", ours=took_ms, most=300)
        yield Row(measure="  the same, memory", unit="MiB", ours=mib, most=200)
    steps = bench.count(100, 30)
    with serving("fleet", steps) as url:
        figures = _worker("our", "replay", url, steps)
    yield Row(
        measure=f"replay of {steps} steps, model of 50 ms",
        unit="s",
        ours=figures["again_s"],
        beside=figures["then_s"],
        beside_is="as recorded",
        ratio_most=0.02,
    )
    found = {}
    for steps in (bench.count(1_000, 200), bench.count(500, 100)):
        with serving("pages", steps) as url:
            found[steps] = _worker("our", "pages", url, steps)
    (steps, whole), (_, half) = found.items()
    yield Row(
        measure=f"journal of {steps:,} steps with results of 10 KB",
        unit="MiB",
        ours=whole["disk_mib"],
        beside=whole["said_mib"],
        beside_is="what was said",
        ratio_most=1.3,
    )
    yield Row(
        measure="  the same against half as many steps",
        unit="MiB",
        ours=whole["disk_mib"],
        beside=half["disk_mib"],
        beside_is="half",
        ratio_most=2.1,
    )


def wire(bench: Bench) -> Iterator[Row]:
    """Normalising a stream, against reading and parsing it alone."""
    deltas = bench.count(8_000, 1_000)
    for dialect in DIALECTS:
        for cutting in normalising.CUTTINGS:
            kind, ours, bare = normalising.worst_us(dialect, cutting, deltas, bench.repeats + 2)
            yield Row(
                measure=f"normalising {dialect} ({kind}, {cutting}), CPU an event",
                unit="us",
                ours=ours,
                beside=bare,
                beside_is="read and parse",
                ratio_most=1.3,
            )
        last = normalising.kinds_of(dialect)[-1]
        long, short = normalising.grown_us(dialect, last, deltas, bench.repeats)
        yield Row(
            measure=f"  the same, four times as long ({last})",
            unit="us",
            ours=long,
            beside=short,
            beside_is="a quarter of it",
            ratio_most=1.2,
        )


def undo(bench: Bench) -> Iterator[Row]:
    files = bench.count(50_000, 5_000)
    with tempfile.TemporaryDirectory(prefix="turnwright-bench-undo-") as folder:
        first_ms, saved_ms, begun_ms = undoing.saved_ms(Path(folder), files, bench.repeats)
        looked_ms = undoing.looked_ms(Path(folder, "work"), bench.repeats)
        undone_ms = undoing.undone_ms(Path(folder), bench.repeats)
    changed = f"{files:,} files of which {undoing.CHANGED} changed"
    yield Row(
        measure=f"saving a workspace of {changed}, beside the turn",
        unit="ms",
        ours=saved_ms,
        beside=looked_ms,
        beside_is="stat of each",
        most=150,
    )
    yield Row(measure="  what the turn itself waits for it", unit="ms", ours=begun_ms, most=1)
    yield Row(measure="  the first time, all of it read", unit="ms", ours=first_ms)
    yield Row(
        measure=f"turnwright undo of a step there ({undoing.CHANGED} files)", unit="ms", ours=undone_ms, most=1000
    )


MEASURES: Mapping[str, Callable[[Bench], Iterator[Row]]] = {
    "steps": steps,
    "growth": growth,
    "streaming": streaming,
    "together": together,
    "starting": starting,
    "memory": memory,
    "following": following,
    "lasting": lasting,
    "wire": wire,
    "undo": undo,
    "deciding": deciding,
}
