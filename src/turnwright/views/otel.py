"""Spans in the words of OpenTelemetry: its current names for generative AI, those before them, or OpenInference's.

What none of them has a word for is under `turnwright.*`: cost, attempts, verdicts, routes, reasons. What was said is
left out unless it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from turnwright.schema.facts import (
    AttemptEnded,
    AttemptStarted,
    Fact,
    StepStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from turnwright.schema.verdicts import GOOD_VERDICTS
from turnwright.views.otel_names import Names, model_of, named
from turnwright.views.spans import Moment, Span, span_id

Value: TypeAlias = str | int | float | bool | tuple[str, ...]


class OtelEvent(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    at_ns: int
    attributes: dict[str, Value]


class OtelSpan(msgspec.Struct, frozen=True, kw_only=True):
    """As OTLP has them, whoever carries it there."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes | None
    name: str
    client: bool
    start_ns: int
    end_ns: int
    attributes: dict[str, Value]
    events: tuple[OtelEvent, ...]
    ok: bool | None
    """None where nobody saw its end."""
    message: str = ""


def otel_spans(drawn: Sequence[Span], names: Names, *, content: bool = False) -> list[OtelSpan]:
    return [_span(span, names, content) for span in drawn]


def _span(span: Span, names: Names, content: bool) -> OtelSpan:
    ok, message = _outcome(span)
    attributes = {**named(span, names), **_ours(span)}
    if content:
        attributes |= _content(span, names)
    return OtelSpan(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_id=None if span.parent is None else span_id(span.conversation_id, span.parent),
        name=_name(span),
        client=span.kind == "attempt",
        start_ns=round(span.start_ms * 1e6),
        end_ns=round(span.end_ms * 1e6),
        attributes={name: value for name, value in attributes.items() if value not in (None, "", ())},
        events=tuple(_event(moment) for moment in span.moments),
        ok=ok,
        message=message,
    )


def _name(span: Span) -> str:
    match span.start_fact:
        case TurnStarted():
            return "invoke_agent turnwright"
        case StepStarted(index=index):
            return f"step {index}"
        case AttemptStarted(route=route):
            return f"chat {model_of(route)}"
        case ToolStarted(name=name) | ToolEnded(name=name):
            return f"execute_tool {name}"
        case _:
            return span.kind


def _outcome(span: Span) -> tuple[bool | None, str]:
    match span.end_fact:
        case TurnEnded(reason=reason, detail=detail):
            return reason == "stop", "" if reason == "stop" else f"{reason}: {detail}".rstrip(": ")
        case AttemptEnded(verdict=verdict, fault=fault):
            return verdict in GOOD_VERDICTS, fault.message if fault else ""
        case ToolEnded(outcome=outcome):
            return outcome == "ok", "" if outcome == "ok" else outcome
        case _:
            return (True if span.kind == "step" else None), ""


# Ours


def _ours(span: Span) -> dict[str, Any]:
    common: dict[str, Any] = {"turnwright.seq": span.seq}
    match span.start_fact:
        case TurnStarted(turn_id=turn_id, mode=mode):
            opened = {"turnwright.parent_conversation.id": span.opened.parent} if span.opened else {}
            return common | {"turnwright.turn.id": turn_id, "turnwright.mode": mode} | opened | _turn(span.end_fact)
        case StepStarted(step_id=step_id, index=index, mode=mode):
            return common | {"turnwright.step.id": step_id, "turnwright.step.index": index, "turnwright.mode": mode}
        case AttemptStarted() as started:
            asked = {
                "turnwright.attempt": started.attempt,
                "turnwright.retry": started.attempt > 1,
                "turnwright.route": started.route,
                "turnwright.purpose": started.purpose,
                "turnwright.stream": started.stream,
            }
            return common | asked | _attempt(span.end_fact)
        case ToolStarted(effect=effect):
            return common | {"turnwright.effect": effect} | _tool(span.end_fact)
        case _:
            return common | _tool(span.end_fact)


def _turn(ended: Fact | None) -> dict[str, Any]:
    if not isinstance(ended, TurnEnded):
        return {}
    return {
        "turnwright.reason": ended.reason,
        "turnwright.steps": ended.steps,
        "turnwright.cost_usd": ended.cost_usd,
        "turnwright.context_size": ended.context_size,
    }


def _attempt(ended: Fact | None) -> dict[str, Any]:
    if not isinstance(ended, AttemptEnded):
        return {}
    return {
        "turnwright.verdict": ended.verdict,
        "turnwright.cost_usd": ended.cost_usd,
        "turnwright.ttft_ms": ended.timing.ttft_ms,
        "turnwright.decode_ms": ended.timing.decode_ms,
        "turnwright.longest_gap_ms": ended.timing.longest_gap_ms,
        "turnwright.bytes_in": ended.bytes_in,
    }


def _tool(ended: Fact | None) -> dict[str, Any]:
    if not isinstance(ended, ToolEnded):
        return {}
    exit_code = ended.detail.get("exit_code")
    return {"turnwright.outcome": ended.outcome, "turnwright.exit_code": exit_code}


# What was said


def _content(span: Span, names: Names) -> dict[str, Any]:
    asked, answered = _words(span)
    match span.kind, names:
        case "attempt", "current":
            return {"gen_ai.output.messages": _messages(span)}
        case "attempt", "legacy":
            return {"gen_ai.completion": answered}
        case "tool", "current" | "legacy":
            return {"gen_ai.tool.call.arguments": asked, "gen_ai.tool.call.result": answered}
        case "turn", "current" | "legacy":
            return {"turnwright.input": asked, "turnwright.output": answered}
        case _, "openinference":
            return {"input.value": asked, "output.value": answered}
        case _:
            return {}


def _words(span: Span) -> tuple[str, str]:
    match span.start_fact, span.end_fact:
        case TurnStarted(text=text), TurnEnded(text=said):
            return text, said
        case ToolStarted(arguments=arguments), ToolEnded(output=output):
            return arguments, output
        case AttemptStarted(), _ if span.reply is not None:
            return "", span.reply.message.text
        case _:
            return "", ""


def _messages(span: Span) -> str:
    """The last one, as the conventions write it. What came before it is in the spans before."""
    if span.reply is None:
        return ""
    message = span.reply.message
    parts: list[dict[str, Any]] = [{"type": "text", "content": message.text}] if message.text else []
    for call in message.calls:
        arguments = msgspec.Raw(call.arguments.encode())
        parts.append({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments})
    said = {"role": "assistant", "parts": parts, "finish_reason": span.reply.verdict}
    return msgspec.json.encode([said]).decode()


def _event(moment: Moment) -> OtelEvent:
    fact = moment.fact
    name = str(fact.__struct_config__.tag)
    attributes = {f"turnwright.{name}": value for name, value in _fields(fact)}
    return OtelEvent(name=name, at_ns=moment.at * 1_000_000, attributes=attributes)


_SAID = frozenset({"text", "digest", "question", "answer", "said", "turn_id", "step_id"})
"""Words, and what the span says itself."""


def _fields(fact: Fact) -> Iterator[tuple[str, Value]]:
    for name in fact.__struct_fields__:
        value = getattr(fact, name)
        if name not in _SAID and isinstance(value, str | int | float | bool) and value != "":
            yield name, value
