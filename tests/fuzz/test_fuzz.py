"""A short run each time; `python3 dev.py fuzz --seconds 60` is the long one."""

from __future__ import annotations

from typing import Any

import pytest
from fuzz_targets import TARGETS, Target
from hypothesis import strategies as st

from fuzz import fuzzed, main


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_raises_and_cuts_never_matter(name: str) -> None:
    assert fuzzed(TARGETS[name], number=20, examples=60) >= 60


def test_a_failure_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def check(value: Any) -> None:
        assert value < 5

    monkeypatch.setitem(TARGETS, "codecs", Target(st.integers(0, 100), check))
    assert main(["--seconds", "0", "--seed", "3", "--only", "codecs"]) == 1
    told = capsys.readouterr().out
    assert "codecs, seed 3:" in told
    assert "value=5" in told
    assert "1 failures" in told
