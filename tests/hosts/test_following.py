"""`follow` through real processes: early, late, many, killed, stopped, and after the host's own death."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from host_place import Follower, Place, wait_for

from turnwright.session.hosting import FEED_BYTES_MAX

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are watched as on Linux"),
]

TEXT = "It was a dark and stormy night; the rain fell in torrents, except at occasional intervals. " * 3


def test_early_late_and_killed_followers_see_one_thing(place: Place) -> None:
    """The one that comes in the middle of a reply gets it from its beginning, live; a killed one changes nothing."""
    host = place.host([{"calls": [place.waits]}, {"text": TEXT, "chunk": 4, "gap_s": 0.02}])
    early, killed, third = (Follower(place, host.id, "--until-idle") for _ in range(3))
    wait_for(lambda: all(each.has("tool.started") for each in (early, killed, third)))
    place.open_gate()
    wait_for(lambda: early.live_text() and killed.live_text())
    killed.process.kill()
    late = Follower(place, host.id, "--until-idle")
    for follower in (early, third, late):
        assert follower.process.wait(30) == 0
        assert follower.live_text() == TEXT
        assert "behind" not in follower.kinds
    assert early.live_text("tool-output") == "through\n"
    assert late.kinds.count("text-delta") < early.kinds.count("text-delta"), "what had been said came as one"
    after = Follower(place, host.id, "--until-idle")
    host.ended()
    assert after.process.wait(30) == 0
    facts = place.facts(host.id)
    assert [line["seq"] for line in facts] == list(range(1, len(facts) + 1))
    assert facts == early.facts == third.facts == late.facts == after.facts
    assert killed.facts == facts[: len(killed.facts)]
    assert place.sockets == []


def test_a_host_that_is_killed_leaves_its_turn_to_the_next(place: Place) -> None:
    """Its follower goes on from the journal, and from the socket of whoever carries on."""
    host = place.host([{"calls": [place.waits]}, {"text": TEXT, "chunk": 9, "gap_s": 0.03}])
    follower, leaves = Follower(place, host.id), Follower(place, host.id, "--until-idle")
    wait_for(lambda: follower.has("tool.started") and leaves.has("tool.started"))
    assert len(place.sockets) == 1
    os.kill(host.pid, signal.SIGKILL)
    host.ended()
    assert len(place.sockets) == 1, "nobody was there to take it away"
    assert leaves.process.wait(30) == 0, "nobody runs it any more, though its turn has no end"
    assert leaves.facts[-1]["type"] == "tool.started"
    late = Follower(place, host.id, "--until-idle")
    assert late.process.wait(30) == 0
    assert late.facts == leaves.facts

    spoken = place.run("steer", host.id, "be quick")
    assert spoken.returncode == 0
    assert "waits on disk" in spoken.stderr
    began = time.monotonic()
    second = place.resumed(host.id)
    assert time.monotonic() - began < 10, "it waited for the lease"
    wait_for(lambda: follower.has("turn.ended"))
    second.ended()
    assert place.sockets == []
    facts = place.facts(host.id)
    assert follower.facts == facts
    assert follower.live_text() == TEXT, "live again, from the second host"
    kinds = follower.kinds
    assert kinds.count("tool.started") == 1, "its outcome is unknown, and it is not run again"
    assert kinds.index("inbox.admitted") < kinds.index("note") < kinds.index("steering.delivered")


def test_a_follower_that_is_stopped_holds_nobody_up(place: Place) -> None:
    """Neither the turn nor the host's memory: it is told that it fell behind, and has every fact all the same."""
    lines = 60 * FEED_BYTES_MAX // 1000
    flood = {"bash": {"command": f"yes {'x' * 999} | head -n {lines}"}}
    host = place.host([{"calls": [place.waits]}, {"calls": [flood]}, {"text": "ok"}])
    stopped, reads = Follower(place, host.id, "--until-idle"), Follower(place, host.id, "--until-idle")
    wait_for(lambda: stopped.has("tool.started") and reads.has("tool.started"))
    os.kill(stopped.process.pid, signal.SIGSTOP)
    place.open_gate()
    wait_for(lambda: _peak_mib(host.pid) and len(reads.facts) > 9)
    peak_mib = _peak_mib(host.pid)
    assert reads.process.wait(30) == 0
    host.ended()
    assert peak_mib < 200
    os.kill(stopped.process.pid, signal.SIGCONT)
    assert stopped.process.wait(30) == 0
    assert stopped.facts == reads.facts == place.facts(host.id)
    assert "behind" not in reads.kinds or len(reads.live_text("tool-output")) > 0


def _peak_mib(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0.0)
