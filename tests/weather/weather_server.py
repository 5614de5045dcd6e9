"""Servers for single tests: a row made for the occasion, or recorded bodies played again."""

from __future__ import annotations

import msgspec

from turnwright.providers.codec import Dialect
from turnwright.testing.exchange import Exchange, whole
from turnwright.testing.fault_table.case import Expected, FaultCase


def row(name: str, *exchanges: Exchange, dialect: Dialect = "openai-chat", streaming: bool = True) -> FaultCase:
    """What the server does with the first request, the second and so on; the last one repeats. It promises nothing."""
    return FaultCase(
        id=name,
        fault=name,
        about="",
        dialect=dialect,
        streaming=streaming,
        tools=False,
        once=False,
        expected=Expected(verdict="complete"),
        exchanges=exchanges,
    )


def refusal(status: int, message: str, code: str = "") -> Exchange:
    """An error as OpenAI words it."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code or None}
    return whole(status, "application/json", msgspec.json.encode({"error": error}))
