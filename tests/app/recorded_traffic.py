"""Recorded traffic of providers, where this machine has it, and what each record says of itself."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

WIRE = Path(os.environ.get("TURNWRIGHT_TEST_SHARED") or Path(__file__).parents[3] / "shared") / "wire"
FILES = ("anthropic", "gemini", "ollama", "ollama-generate", "openai-chat", "openai-responses")

WRONG: dict[str, str] = {}
"""Records that we hold to be wrong in the data, by id, each with the reason. None so far."""

needs_records = pytest.mark.skipif(
    not WIRE.is_dir(), reason=f"no recorded traffic at {WIRE}; TURNWRIGHT_TEST_SHARED names the folder of wire/"
)


def file_of(name: str) -> Path:
    return WIRE / f"{name}.jsonl"


def lines_of(name: str) -> Iterator[bytes]:
    with file_of(name).open("rb") as lines:
        yield from lines


def meaning(expected: dict[str, Any]) -> dict[str, Any]:
    """What a record says, in the words of `wire decode`."""
    error = expected["error"]
    return {
        "text": expected["text"],
        "reasoning": expected["reasoning"] or None,
        "tool_calls": [{key: call[key] for key in ("id", "name", "arguments")} for call in expected["tool_calls"]],
        "finish_reason": expected["finish_reason"],
        "finish": expected["finish"],
        "usage_reported": expected["usage"],
        "error": error and {key: error[key] for key in ("kind", "status", "message")},
        "refusal": expected.get("refusal"),
    }


def answer(line: bytes) -> dict[str, Any]:
    """The same fields of a line of `wire decode`."""
    decoded = json.loads(line)
    calls = [{key: call[key] for key in ("id", "name", "arguments")} for call in decoded["tool_calls"]]
    fields = ("text", "reasoning", "finish_reason", "finish", "usage_reported", "error")
    return {key: decoded[key] for key in fields} | {"tool_calls": calls, "refusal": decoded.get("refusal")}
