"""What a request is about, by its words."""

from __future__ import annotations

import pytest

from turnwright.kernel.task_class import task_class_of
from turnwright.schema.verdicts import TaskClass

REQUESTS: list[tuple[str, TaskClass]] = [
    ("fix the failing test", "action"),
    ("Please add a --json option to the list command", "action"),
    ("Make the tests pass.", "action"),
    ("Could you rename foo to bar everywhere?", "action"),
    ("Find the bug in parse() and fix it; then run the tests and update the changelog", "action"),
    ("Refactor the 300 call sites of send()", "action"),
    ("Why does the build fail on macOS?", "analysis"),
    ("how does the parser handle nested quotes", "analysis"),
    ("Explain what dispatch.py does", "analysis"),
    ("Audit the code for SQL injection. Do not change anything.", "analysis"),
    ("Review this change and only report what is wrong", "analysis"),
    ("Where is the retry budget set?", "analysis"),
    ("Summarise the last ten commits", "analysis"),
    ("hello", "other"),
    ("", "other"),
    ("thanks", "other"),
    ("2 + 2", "other"),
    ("日本語のテスト", "other"),
]


@pytest.mark.parametrize(("request_text", "expected"), REQUESTS, ids=[text[:30] or "(empty)" for text, _ in REQUESTS])
def test_a_request_is_told_by_its_words(request_text: str, expected: TaskClass) -> None:
    assert task_class_of(request_text).task_class == expected


def test_the_signals_say_why() -> None:
    assert task_class_of("fix it and run the tests").signals == ("fix +3", "run +1")
    assert task_class_of("Audit it, read only").signals == ("read only +4", "audit +3", "read +1")
    assert task_class_of("what?").signals == ("what +3", "? +2")


def test_a_long_request_costs_no_more_than_its_beginning() -> None:
    assert task_class_of("fix it. " + "why " * 1_000_000).signals == task_class_of("fix it. " + "why " * 998).signals
