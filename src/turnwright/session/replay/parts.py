"""The parts of a recorded reply, made from the facts that they became: put together, they must give those again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from turnwright.kernel.assemble import NAMELESS
from turnwright.schema.facts import AttemptEnded, ModelReplied, ToolStarted
from turnwright.schema.messages import ToolCall
from turnwright.schema.parts import (
    UNREADABLE,
    Closed,
    Done,
    Finish,
    Part,
    Raw,
    ReasoningPart,
    Refusal,
    Start,
    StreamError,
    Text,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    UsagePart,
)
from turnwright.schema.verdicts import GOOD_VERDICTS, Verdict

LOST = "lost"
"""The kind of a Raw that stands for a piece of which the journal says only that it came."""


def recorded_parts(
    ended: AttemptEnded, replied: ModelReplied | None, early: Sequence[ToolStarted], had_content: bool
) -> list[Part]:
    """All but Closed. `early` are calls that had started while a reply streamed that failed then; `had_content` says
    that something of a failed reply had come, whatever it was."""
    parts: list[Part] = [Start(model=ended.model)]
    if replied is None:
        if ended.partial_text:
            parts.append(Text(ended.partial_text))
        elif had_content and not early:
            parts.append(Raw(LOST, ""))
        for index, started in enumerate(early):
            parts += _call(index, ToolCall(id=started.call_id or "", name=started.name, arguments=started.arguments))
    else:
        parts += _said(replied)
    if ended.usage is not None or ended.cost_usd is not None:
        usage = ended.usage or Usage()
        said_usd = None if ended.cost_estimated else ended.cost_usd
        parts.append(UsagePart(usage=usage, reported=usage, cost_usd=said_usd))
    if (fault := ended.fault) is not None and fault.kind is not None:
        parts.append(
            StreamError(
                kind=fault.kind, message=fault.message, status=fault.status, code=fault.code, no_tools=fault.no_tools
            )
        )
    if ended.finish is not None:
        parts.append(Finish(raw=ended.finish_raw or "", finish=ended.finish))
    elif ended.verdict in GOOD_VERDICTS:
        parts.append(Done())
    if ended.verdict == "non_json" and ended.finish is not None:
        parts.append(Raw(UNREADABLE, ""))
    return parts


def recorded_end(ended: AttemptEnded) -> Closed:
    fault = ended.fault
    if fault is None:
        return Closed(how="eof", request_id=ended.request_id, bytes_in=ended.bytes_in, replaced=ended.replaced)
    return Closed(
        how=_how(ended.verdict, ended.finish is not None),
        status=fault.status,
        stall=fault.stall,
        detail=fault.message,
        request_id=ended.request_id,
        retry_after_s=fault.retry_after_s,
        bytes_in=ended.bytes_in,
        replaced=ended.replaced,
        excerpt=fault.excerpt,
        overflow=fault.overflow,
    )


def _how(
    verdict: Verdict, whole: bool
) -> Literal["eof", "http_error", "interstitial", "non_json", "stall", "transport"]:
    match verdict:
        case "http_error" | "interstitial" | "stall" | "transport":
            return verdict
        case "non_json" if not whole:
            return "non_json"
        case _:
            return "eof"


def _said(replied: ModelReplied) -> Iterator[Part]:
    message = replied.message
    for block, thought in enumerate(message.reasoning):
        yield ReasoningPart(text=thought.text, block=block, signature=thought.signature, opaque=thought.opaque)
    if message.text:
        yield Text(message.text)
    for index, call in enumerate(message.calls):
        yield from _call(index, call)
    if replied.verdict == "refused" and not message.text and not message.calls:
        yield Refusal("(refused)")
    if replied.verdict == "complete" and not message.text.strip():
        yield Raw(LOST, "")


def _call(index: int, call: ToolCall) -> Iterator[Part]:
    name = "" if call.name == NAMELESS and call.problem else call.name
    yield ToolCallStart(index=index, id=call.id, name=name, signature=call.signature)
    yield ToolCallArguments(fragment=call.raw or call.arguments, index=index, id=call.id)
    yield ToolCallEnd(index=index, id=call.id)
