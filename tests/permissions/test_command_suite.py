"""Shell lines with the decision that is expected, and the piece of the line that makes it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from permission_ground import Lexical

from turnwright.session.permissions.decide import Policy, decide

SUITE: dict[str, list[list[str]]] = yaml.safe_load(Path(__file__).with_name("command_suite.yaml").read_text())
LINES = [pytest.param(*case, id=f"{group}-{case[0]}"[:80]) for group, cases in SUITE.items() for case in cases]


def test_there_are_enough() -> None:
    assert len(LINES) >= 200
    assert len({case[0] for cases in SUITE.values() for case in cases}) == len(LINES)


@pytest.mark.parametrize(("line", "action", "kind", "segment"), LINES)
def test_a_line(line: str, action: str, kind: str, segment: str) -> None:
    decision = decide(Policy(), "bash", "runs", {"command": line}, Lexical())
    assert (decision.action, decision.kind, decision.segment) == (action, kind, segment)
