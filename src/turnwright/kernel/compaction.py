"""What the model may do without, once its window is nearly full (C3, P17): old tool output first, then the oldest steps
as a whole. Pure: a compaction changes what is shown, never a fact."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from turnwright.kernel.counting import chars_of
from turnwright.kernel.work import work_text
from turnwright.schema.facts import ContextCompacted
from turnwright.schema.ids import CallId, Seq, StepId
from turnwright.schema.messages import (
    AssistantMessage,
    Message,
    RuntimeMessage,
    ToolResult,
    ToolResults,
    UserMessage,
)

KEPT_SHARE = 0.25
"""The newest part is no more than this share of the window, where that is small."""
TARGET_SHARE = 0.5
"""Below this share of the window there is room again: less would mean to compact again soon."""
WORTH_CHARS = 400
"""Shorter output is not worth a stub."""
DIGEST_TOKENS = 4_096
DIGEST = "digest"
"""The code of the message that stands for what is no longer shown."""

DIGEST_REQUEST = """The conversation has nearly filled your context window. Before you go on, write a summary of it \
for yourself: soon you will see only this summary, what the user said, lists of the files read and changed, the plan, \
and your most recent steps. Answer with the summary alone, in plain text. Do not call a tool and do not go on with the \
task. Say, as briefly as can be without losing what matters:
- what is to be done, and every condition that was set;
- what was found out: names, places, commands and their outcomes, exact error messages that still matter;
- what was done and decided, and why; what was tried and did not work;
- what is in progress, and what comes next."""

_HEADING = """The earlier part of this conversation is no longer shown, to make room. This is your own summary of it:"""


class Cut(msgspec.Struct):
    """Where a step begins: between two such places lie whole groups of a reply, its calls and their results."""

    step_id: StepId
    index: int
    """Messages before it."""
    seq: Seq = 0
    """Of `step.started`, once that is recorded."""


def old_output(messages: Sequence[Message], kept_chars: float) -> tuple[CallId, ...]:
    """The calls whose output may go, oldest first: all that lies before the newest part, if it is long enough."""
    found: list[CallId] = []
    for message in reversed(messages):
        if isinstance(message, ToolResults):
            for result in reversed(message.results):
                kept_chars -= len(result.output)
                if kept_chars < 0 and len(result.output) > WORTH_CHARS and not is_stub(result):
                    found.append(result.call_id)
        elif isinstance(message, AssistantMessage):
            kept_chars -= len(message.text)
    return tuple(reversed(found))


def cut_for(messages: Sequence[Message], cuts: Sequence[Cut], kept_chars: float) -> Cut | None:
    """The newest place behind which still lies all of the newest part; None where nothing before it would go."""
    index = len(messages)
    for cut in reversed(cuts):
        while index > cut.index:
            index -= 1
            kept_chars -= chars_of(messages[index])
        if kept_chars <= 0 and cut.seq:
            goes = any(isinstance(message, AssistantMessage) for message in messages[: cut.index])
            return cut if goes else None
    return None


def kept_words(messages: Sequence[Message], most_chars: float) -> tuple[Message, ...]:
    """What the user said: the first thing and the last whatever their length, then as much as there is room for."""
    said = [message for message in messages if isinstance(message, UserMessage)]
    kept: list[Message] = []
    for place in reversed(range(len(said))):
        most_chars -= chars_of(said[place])
        if place in (0, len(said) - 1) or most_chars >= 0:
            kept.append(said[place])
    return tuple(reversed(kept))


def digest_message(fact: ContextCompacted) -> RuntimeMessage:
    """What stands for everything before `from_step`, in the runtime's own name."""
    return RuntimeMessage(code=DIGEST, text="\n\n".join(filter(None, (_HEADING, fact.digest, work_text(fact.work)))))


def stubbed(messages: Sequence[Message], calls: Collection[CallId]) -> list[Message]:
    """The same history with the output of these calls left out."""
    return [_without_output(message, calls) if isinstance(message, ToolResults) else message for message in messages]


def results_of(message: Message) -> tuple[ToolResult, ...]:
    return message.results if isinstance(message, ToolResults) else ()


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
