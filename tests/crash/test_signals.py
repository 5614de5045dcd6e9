"""A run that is asked to stop: the turn ends as cancelled, in time, and no process is left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crash_place import Place, printed

from turnwright.journal.verify import verify
from turnwright.machine.warden import descendants, process_table
from turnwright.schema.facts import TurnEnded

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are watched as on Linux")

ENDED_WITHIN_MS = 1_000
GONE_WITHIN_S = 2.0
"""The turn has a second; giving back the lease and leaving the interpreter come after."""

IN_A_COMMAND: list[dict[str, Any]] = [
    {"text": "I wait.", "calls": [{"bash": {"command": "sleep 600 & (setsid sleep 600 &) ; sleep 600"}}]},
    {"text": "done"},
]
IN_A_REPLY: list[dict[str, Any]] = [
    {"text": "I think about it", "fault": {"is": "stall", "after": 2, "wait_s": "forever"}},
]


def started(root: Path, steps: list[dict[str, Any]]) -> tuple[Place, subprocess.Popen[bytes]]:
    place = Place(root / "place")
    place.lay_out()
    place.script.write_text(json.dumps({"follow": "history", "steps": steps}))
    return place, place.popen(place.run())


def wait_for(what: Callable[[], object], limit_s: float = 20.0) -> None:
    end = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def has_printed(place: Place, kind: str) -> bool:
    return any(line["type"] == kind for line in printed(place.out))


def living() -> set[int]:
    return {pid for pid, _ in process_table()}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("steps", "under_way"), [(IN_A_COMMAND, "tool.started"), (IN_A_REPLY, "text-delta")], ids=["command", "reply"]
)
def test_asked_to_stop(tmp_path: Path, steps: list[dict[str, Any]], under_way: str, number: signal.Signals) -> None:
    place, process = started(tmp_path, steps)
    wait_for(lambda: has_printed(place, under_way))
    if under_way == "tool.started":
        wait_for(lambda: len(descendants({process.pid})) >= 5)  # the keeper, a warden, the shell, its sleepers
    family = descendants({process.pid})
    began_ms, began = time.time() * 1000, time.monotonic()
    process.send_signal(number)
    code = process.wait(20)
    took_s = time.monotonic() - began

    last = printed(place.out)[-1]
    assert (code, last["type"], last["reason"]) == (130, "result", "cancelled")
    (facts,) = place.conversations().values()
    assert isinstance(facts[-1].fact, TurnEnded)
    assert facts[-1].fact.reason == "cancelled"
    assert facts[-1].at - began_ms <= ENDED_WITHIN_MS
    assert took_s <= GONE_WITHIN_S
    assert not family & living()
    assert verify(place.journal).clean


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    place, process = started(tmp_path, IN_A_COMMAND)
    wait_for(lambda: has_printed(place, "tool.started"))
    wait_for(lambda: len(descendants({process.pid})) >= 5)
    family = descendants({process.pid})
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) in (130, -signal.SIGINT)
    wait_for(lambda: not family & living(), limit_s=GONE_WITHIN_S)
    assert verify(place.journal).clean


def test_what_was_cancelled_can_be_carried_on(tmp_path: Path) -> None:
    """The command is not run again, and the model reads that it was interrupted."""
    place, process = started(tmp_path, IN_A_COMMAND)
    wait_for(lambda: has_printed(place, "tool.started"))
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    (conversation_id,) = place.conversations()
    code, _ = place.finish(place.resume(conversation_id))
    lines = printed(place.out)
    assert (code, lines[-1]["reason"], lines[-1]["text"]) == (0, "stop", "done")
    assert not has_printed(place, "tool.started")
