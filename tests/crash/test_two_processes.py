"""Two processes want one conversation: the second is told who has it, can look on, and takes over from the dead."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash_place import Place, printed, printed_lines
from test_signals import has_printed, wait_for

from turnwright.journal.records import LEASE_MS
from turnwright.journal.verify import verify

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="dead holders are known as on Linux")


class Held:
    """A run that waits in a shell command until `let_go`."""

    def __init__(self, root: Path) -> None:
        self.place = Place(root / "place")
        self.place.lay_out()
        self._gate = self.place.workspace / "gate"
        steps = [
            {"text": "I wait.", "calls": [{"bash": {"command": f"while [ ! -e {self._gate} ]; do sleep 0.02; done"}}]},
            {"text": "done"},
        ]
        self.place.script.write_text(json.dumps({"follow": "history", "steps": steps}))
        self.process = self.place.popen(self.place.run())
        wait_for(lambda: has_printed(self.place, "tool.started"))
        self.conversation_id: str = printed(self.place.out)[0]["conversation_id"]

    def let_go(self) -> None:
        self._gate.touch()

    def other(self, name: str, *words: str) -> tuple[subprocess.Popen[bytes], Path]:
        out = self.place.root / name
        return self.place.popen([sys.executable, "-m", "turnwright", *words], out), out


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    held = Held(tmp_path)
    yield held
    held.let_go()
    held.process.wait(20)


@pytest.mark.parametrize("words", [("resume", "ID", "--continue"), ("run", "--resume", "ID", "do more")])
def test_the_second_is_told_who_has_it(held: Held, words: tuple[str, ...]) -> None:
    known = [word.replace("ID", held.conversation_id) for word in words]
    model = ["--model", f"scripted/{held.place.script}"]
    process, out = held.other("second", *known, *model)
    code = process.wait(20)
    said = out.with_suffix(".err").read_text()
    assert code == 1
    assert len(said.splitlines()) == 1
    assert f"{held.conversation_id} is being written by process {held.process.pid}" in said
    assert f"turnwright follow {held.conversation_id}" in said
    assert out.read_bytes() == b""

    held.let_go()
    assert held.process.wait(20) == 0, "the first must not notice"
    assert printed(held.place.out)[-1]["text"] == "done"


def test_others_may_look_on(held: Held) -> None:
    show, shown = held.other("shown", "show", held.conversation_id, "--json")
    assert show.wait(20) == 0
    assert [line["seq"] for line in printed(shown)] == list(range(1, len(printed(shown)) + 1))
    assert printed(shown)[-1]["type"] == "tool.started"

    sessions, listed = held.other("listed", "sessions", "--json")
    assert sessions.wait(20) == 0
    assert [json.loads(line)["conversation_id"] for line in printed_lines(listed)] == [held.conversation_id]

    follow, followed = held.other("followed", "follow", held.conversation_id, "--json", "--until-idle")
    wait_for(lambda: len(printed(followed)) >= len(printed(shown)))
    held.let_go()
    assert held.process.wait(20) == 0
    assert follow.wait(20) == 0
    facts = [line for line in printed_lines(held.place.out) if b'"seq":' in line]
    assert [line for line in printed_lines(followed) if b'"seq":' in line] == facts


def test_a_dead_holder_is_replaced_at_once(held: Held) -> None:
    """Also while its parent has not taken notice of the death: a zombie holds nothing."""
    os.kill(held.process.pid, signal.SIGKILL)
    died = time.monotonic()
    held.let_go()
    resume, out = held.other("resumed", *held.place.resume(held.conversation_id)[3:])
    assert resume.wait(LEASE_MS / 1000) == 0
    took_s = time.monotonic() - died
    assert "turn-resumed" in [line.get("code") for line in printed(out)]
    assert printed(out)[-1]["reason"] == "stop"
    assert took_s < LEASE_MS / 1000 / 4, "as long as that, it waited for the lease"
    assert held.process.wait(20) == -signal.SIGKILL
    assert verify(held.place.journal).clean
