"""Rows of the fault table through `turnwright run`, and what they break of what was promised."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from weather_runs import Place, Ran, cli, nursery, run_words

from turnwright.testing.exchange import Hang, Pulse
from turnwright.testing.fault_table.case import FaultCase
from turnwright.testing.faults import FaultServer, serve

PULSE_S = 0.5
SHORT_S = 2.5
TOTAL_S = 6.0
PATIENT_S = 60.0
SLEEPS_S = (1.0 + 4.0) * 1.25
"""Between the three tries that a route gets, at the longest."""
START_S = 20.0
"""To start, on a machine that is busy with many of them."""
TRIES = 3


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A case, what came of it and what it broke."""

    case: FaultCase
    ran: Ran
    requests: int
    broken: tuple[str, ...]

    @property
    def is_wrongly_complete(self) -> bool:
        """An attempt that was not, called whole."""
        first = next(iter(self.ran.facts("attempt.ended")), {"verdict": ""})
        whole = ("complete", "tool_calls")
        return first["verdict"] in whole and self.case.expected.verdict not in whole


def is_quiet(case: FaultCase) -> bool:
    """Somebody waits in vain here, so the timers must be short."""
    return any(isinstance(op, Hang | Pulse) for op in case.exchanges[0])


def timers_of(case: FaultCase) -> dict[str, float]:
    patient = {"connect_s": 30.0, "first_byte_s": PATIENT_S, "gap_s": PATIENT_S, "total_s": 90.0}
    if case.expected.stall == "total":
        return {**patient, "total_s": TOTAL_S}
    if is_quiet(case):
        return {**patient, "first_byte_s": SHORT_S, "gap_s": SHORT_S, "total_s": TOTAL_S}
    return patient


def limit_s(case: FaultCase) -> float:
    return START_S + SLEEPS_S + TRIES * (TOTAL_S if is_quiet(case) or case.expected.stall else 5.0)


NUDGES = ("announced", "empty", "length", "reasoning_only", "repetition")
"""Guards that ask again where a reply is poor. The table promises what one step does with what comes over the wire."""


def config_of(case: FaultCase) -> dict[str, Any]:
    return {
        "timers": timers_of(case),
        "providers": {"endpoint": {"stream": "auto" if case.streaming else "never"}},
        "guards": {name: {"enabled": False} for name in NUDGES},
        "logging": {"level": "error"},
    }


async def weathered(
    cases: Iterable[FaultCase],
    root: Path,
    *,
    at_once: int,
    forked: bool = True,
    told: Callable[[Row], None] = lambda _: None,
) -> list[Row]:
    """Each case through a process of its own: a fork of one that has everything imported, or a fresh `python -m`."""
    rows: list[Row] = []
    waiting = list(cases)
    left = iter(waiting)
    async with serve(waiting, pulse_s=PULSE_S) as server, nursery() as forks, asyncio.TaskGroup() as group:

        async def work(place: Place) -> None:
            for case in left:
                config = place.config(config_of(case))
                words = run_words(server.url(case.id), case.dialect, config, place.work)
                ran = await (forks.run(place, *words) if forked else cli(place, *words))
                rows.append(judged(case, ran, server))
                told(rows[-1])

        for number in range(at_once):
            group.create_task(work(Place(root / str(number))))
    return rows


def judged(case: FaultCase, ran: Ran, server: FaultServer) -> Row:
    requests = len(server.seen(case.id))
    if ran.code is None:
        broken: Sequence[str] = ("it hangs",)
    elif not ran.facts("turn.ended"):
        broken = (f"no turn ended; exit {ran.code}; {ran.err[-300:]!r}",)
    else:
        broken = _differences(case, ran, requests)
    return Row(case=case, ran=ran, requests=requests, broken=tuple(f"{case.id}: {each}" for each in broken))


def _differences(case: FaultCase, ran: Ran, requests: int) -> list[str]:
    expected = case.expected
    first, ended = ran.facts("attempt.ended")[0], ran.facts("turn.ended")[0]
    fault = first.get("fault", {})
    ran_calls = [(each["name"], json.loads(each["arguments"])) for each in ran.facts("tool.started")]
    pairs: list[tuple[str, object, object]] = [
        ("verdict", first["verdict"], expected.verdict),
        ("requests", requests, expected.requests),
        ("ends", ended["reason"], expected.ends),
        ("calls", ran_calls, [(call.name, json.loads(call.arguments)) for call in expected.calls]),
        ("success", ran.code == 0, expected.ends == "stop"),
        ("in time", ran.took_s < limit_s(case), True),
    ]
    replied = next(iter(ran.facts("model.replied")), None)
    if "fault" not in first and first["verdict"] != "empty" and replied is not None:
        message = replied["message"]
        pairs.append(("text", message.get("text", ""), expected.text))
        thoughts = "".join(thought.get("text", "") for thought in message.get("reasoning", ()))
        pairs.append(("reasoning", thoughts, expected.reasoning))
    elif expected.text is not None:
        pairs.append(("partial text", first.get("partial_text", ""), expected.text))
    promised = (
        ("answer", ended.get("text", ""), expected.answer),
        ("finish", first.get("finish"), expected.finish),
        ("error kind", fault.get("kind"), expected.error_kind),
        ("status", fault.get("status") or 200, expected.status),
        ("stall", fault.get("stall"), expected.stall),
    )
    pairs += [(name, got, wanted) for name, got, wanted in promised if wanted is not None]
    return [f"{name} is {got!r}, promised {wanted!r}" for name, got, wanted in pairs if got != wanted]


def spread(cases: Sequence[FaultCase], count: int) -> list[FaultCase]:
    """So many of them, evenly over the whole table, so that every dialect and family is among them."""
    return [cases[index * len(cases) // count] for index in range(count)]


def rows(done: Sequence[Row]) -> list[str]:
    """By dialect, and what did not hold."""
    lines = [f"{'dialect':<20}{'cases':>7}{'held':>7}{'hung':>6}{'wrong complete':>16}{'requests':>10}{'longest':>10}"]
    dialects = sorted({row.case.dialect for row in done})
    lines += [_sum(dialect, [row for row in done if row.case.dialect == dialect]) for dialect in dialects]
    return [*lines, _sum("all", done), *(line for row in done for line in row.broken)]


def _sum(name: str, done: Sequence[Row]) -> str:
    held, hung = sum(not row.broken for row in done), sum(row.ran.code is None for row in done)
    wrong = sum(row.is_wrongly_complete for row in done)
    requests, longest_s = sum(row.requests for row in done), max(row.ran.took_s for row in done)
    return f"{name:<20}{len(done):>7}{held:>7}{hung:>6}{wrong:>16}{requests:>10}{longest_s:>8.1f} s"
