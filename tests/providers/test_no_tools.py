"""A model without tools is a fact about it, however its host words and numbers it."""

from __future__ import annotations

import json

import pytest

from turnwright.providers.error_bodies import error_of
from turnwright.schema.verdicts import ErrorKind


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools", "bad_request"),
        (404, "No endpoints found that support tool use. To learn more about provider routing, …", "not_found"),
        (400, "`tool calling` is not supported with this model", "bad_request"),
        (500, "tools param requires --jinja flag", "bad_request"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', "bad_request"),
        (400, "Function calling is not enabled for models/gemma-3", "bad_request"),
    ],
)
def test_no_tools(status: int, message: str, kind: ErrorKind) -> None:
    error = error_of(status, json.dumps({"error": {"message": message}}).encode())
    assert (error.no_tools, error.kind) == (True, kind)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (500, "Internal error while the tool server started"),
        (400, "Invalid schema for function 'ls': tools[0].parameters is not an object"),
        (400, "An assistant message with 'tool_calls' must be followed by tool messages"),
        (429, "Rate limit reached for tool calls"),
    ],
)
def test_other_troubles_with_tools(status: int, message: str) -> None:
    assert not error_of(status, json.dumps({"error": {"message": message}}).encode()).no_tools
