"""What can be left out of a history that has outgrown its window (P17, C3's first stage): old tool output. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from turnwright.schema.ids import CallId
from turnwright.schema.messages import AssistantMessage, Message, ToolResult, ToolResults

CHARS_PER_TOKEN = 4
KEPT_TOKENS = 20_000
"""The newest part of a history, which stays as it is."""
KEPT_SHARE = 0.25
"""No more than this share of a known window, where it is small."""
WORTH_CHARS = 400
"""Shorter output is not worth a stub."""


def old_output(messages: Sequence[Message], window: int | None) -> tuple[CallId, ...]:
    """The calls whose output may go, oldest first: all that lies before the newest part, if it is long enough."""
    kept_tokens = KEPT_TOKENS if window is None else min(KEPT_TOKENS, int(window * KEPT_SHARE))
    left_chars = kept_tokens * CHARS_PER_TOKEN
    found: list[CallId] = []
    for message in reversed(messages):
        if isinstance(message, ToolResults):
            for result in reversed(message.results):
                left_chars -= len(result.output)
                if left_chars < 0 and len(result.output) > WORTH_CHARS and not is_stub(result):
                    found.append(result.call_id)
        elif isinstance(message, AssistantMessage):
            left_chars -= len(message.text)
    return tuple(reversed(found))


def stubbed(messages: Sequence[Message], calls: Collection[CallId]) -> list[Message]:
    """The same history with the output of these calls left out."""
    return [_without_output(message, calls) if isinstance(message, ToolResults) else message for message in messages]


def is_stub(result: ToolResult) -> bool:
    return result.output.startswith(STUB)


STUB = "[left out to make room:"


def _without_output(message: ToolResults, calls: Collection[CallId]) -> ToolResults:
    if not any(result.call_id in calls for result in message.results):
        return message
    return ToolResults(results=tuple(_stub(each) if each.call_id in calls else each for each in message.results))


def _stub(result: ToolResult) -> ToolResult:
    said = f"{STUB} {len(result.output)} characters of output. Call the tool again if you need it.]"
    return msgspec.structs.replace(result, output=said, images=())
