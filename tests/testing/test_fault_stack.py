"""The fault table against the stack: HTTP, gate, framing, codecs, assembly, verdict, retry and loop, over sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

import msgspec
import pytest

from turnwright.app.clock import SystemClock
from turnwright.kernel.history import History
from turnwright.kernel.loop import Turn, TurnOutcome, run_turn
from turnwright.providers.dialects import codec_of
from turnwright.providers.endpoint import Endpoint
from turnwright.providers.http_route import HttpModel, HttpRoute
from turnwright.providers.router import MemoryHealth, Router
from turnwright.schema.facts import AttemptEnded, AttemptFault, ModelReplied
from turnwright.schema.routes import Route
from turnwright.schema.settings import Timers
from turnwright.testing.exchange import Hang, Pulse
from turnwright.testing.fault_table import FAULTS, cases
from turnwright.testing.fault_table.case import FaultCase
from turnwright.testing.fault_table.chance import random_cases
from turnwright.testing.faults import FaultServer, serve
from turnwright.testing.ports import FunctionTools, MemoryRecord, ports_for
from turnwright.wire.http import HttpClient

PULSE_S = 0.15
SHORT = Timers(connect_s=5.0, first_byte_s=0.8, gap_s=0.8, total_s=2.5)
PATIENT = Timers(connect_s=30.0, first_byte_s=30.0, gap_s=30.0, total_s=90.0)
"""For rows in which nobody waits: a busy machine must not look like a stall."""
ENDLESS = Timers(connect_s=30.0, first_byte_s=30.0, gap_s=30.0, total_s=2.5)
LIMIT_S = 4 * 2.5 + 5
"""The attempt budget times the longest attempt, and some for a busy machine."""
AT_ONCE = 60


class Hasty(SystemClock):
    """Retries need not be waited for."""

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(0)


def ls(path: str = ".") -> str:
    return f"a.txt in {path}"


def glob(pattern: str) -> str:
    return f"{pattern} is a.txt"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a row."""

    first: AttemptEnded
    replied: ModelReplied | None
    outcome: TurnOutcome
    ran: list[tuple[str, dict[str, object]]]
    requests: int
    took_s: float


def timers_for(case: FaultCase) -> Timers:
    if case.expected.stall == "total":
        return ENDLESS
    return SHORT if any(isinstance(op, Hang | Pulse) for op in case.exchanges[0]) else PATIENT


async def drive(case: FaultCase, server: FaultServer, client: HttpClient) -> Seen:
    clock = SystemClock()
    endpoint = Endpoint(base_url=server.url(case.id))
    http = HttpRoute(endpoint=endpoint, codec=codec_of(case.dialect))
    model = HttpModel(
        client, {"r": http}, clock=clock, wall_s=lambda: clock.wall_ms() / 1000, timers=timers_for(case), agent="test"
    )
    route = Route(name="r", model="m", stream=case.streaming)
    router = Router([route], model, health=MemoryHealth(), wall_s=lambda: clock.wall_ms() / 1000)
    tools, record = FunctionTools(ls, glob), MemoryRecord()
    turn = Turn(conversation_id="c_00000000000000000001", turn_id="t", text="go", history=History("l"))
    began_s = clock.monotonic()
    outcome = await run_turn(turn, ports_for(router, tools=tools, clock=Hasty()), record)
    return Seen(
        first=next(fact for fact in record.facts if isinstance(fact, AttemptEnded)),
        replied=next((fact for fact in record.facts if isinstance(fact, ModelReplied)), None),
        outcome=outcome,
        ran=tools.ran,
        requests=len(server.seen(case.id)),
        took_s=clock.monotonic() - began_s,
    )


async def drive_all(rows: Iterable[FaultCase]) -> dict[str, Seen]:
    gate = asyncio.Semaphore(AT_ONCE)
    seen: dict[str, Seen] = {}

    async def one(row: FaultCase, server: FaultServer, client: HttpClient) -> None:
        async with gate:
            seen[row.id] = await drive(row, server, client)

    async with serve(rows, pulse_s=PULSE_S) as server, HttpClient() as client, asyncio.TaskGroup() as group:
        for row in rows:
            group.create_task(one(row, server, client))
    return seen


def broken_promises(case: FaultCase, seen: Seen) -> list[str]:
    expected, first = case.expected, seen.first
    fault = first.fault or AttemptFault(message="")
    calls = [(call.name, json.loads(call.arguments)) for call in expected.calls]
    pairs: list[tuple[str, object, object]] = [
        ("verdict", first.verdict, expected.verdict),
        ("requests", seen.requests, expected.requests),
        ("ends", seen.outcome.reason, expected.ends),
        ("calls", [(name, sent) for name, sent in seen.ran], [(n, a or {"path": "."}) for n, a in calls]),
        ("in time", seen.took_s < LIMIT_S or timers_for(case) is PATIENT, True),
    ]
    if first.fault is None and first.verdict != "empty" and seen.replied:
        message = seen.replied.message
        pairs.append(("text", message.text, expected.text))
        pairs.append(("reasoning", "".join(thought.text for thought in message.reasoning), expected.reasoning))
    elif expected.text is not None:
        pairs.append(("partial text", first.partial_text, expected.text))
    promised = (
        ("answer", seen.outcome.text, expected.answer),
        ("finish", first.finish, expected.finish),
        ("error kind", fault.kind, expected.error_kind),
        ("status", fault.status or 200, expected.status),
        ("stall", fault.stall, expected.stall),
    )
    pairs += [(name, got, wanted) for name, got, wanted in promised if wanted is not None]
    return [f"{case.id}: {name} is {got!r}, promised {wanted!r}" for name, got, wanted in pairs if got != wanted]


@pytest.fixture(scope="module")
def seen() -> dict[str, Seen]:
    return asyncio.run(drive_all(cases()))


@pytest.mark.parametrize("fault", [fault.name for fault in FAULTS])
def test_the_table_holds(fault: str, seen: dict[str, Seen]) -> None:
    broken = [line for row in cases() if row.fault == fault for line in broken_promises(row, seen[row.id])]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("count", [200, pytest.param(1500, marks=pytest.mark.slow)])
async def test_chance_finds_nothing_hung_and_nothing_wrongly_complete(count: int) -> None:
    rows = list(random_cases(count, seed=count))
    seen = await drive_all(rows)
    broken = [line for row in rows for line in broken_promises(row, seen[row.id])]
    assert not broken, "\n".join(broken)
