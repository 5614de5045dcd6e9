"""A conversation as an ATIF trajectory (Agent Trajectory Interchange Format, v1.7), as harbor and others read it.

Whatever the format has no field for stands in `extra`. Words of the runtime are steps of `system`, never of the agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import msgspec

from turnwright.schema.messages import Image
from turnwright.schema.parts import Usage
from turnwright.views.fold import Blob
from turnwright.views.metrics import Metrics, StepMetrics
from turnwright.views.transcript import (
    AnyEntry,
    Asked,
    Call,
    Condensed,
    Ended,
    Guarded,
    Noticed,
    Opened,
    Replied,
    Resulted,
    Steered,
)

ATIF_VERSION = "ATIF-v1.7"
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})

Extra: TypeAlias = dict[str, Any]


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """No part of the format is written where it says nothing."""


class Source(_Part, frozen=True, kw_only=True):
    media_type: str
    path: str
    """A data URL: a trajectory is one file."""


class Content(_Part, frozen=True, kw_only=True):
    type: Literal["text", "image"]
    text: str | None = None
    source: Source | None = None


class AtifCall(_Part, frozen=True, kw_only=True):
    tool_call_id: str
    function_name: str
    arguments: msgspec.Raw
    extra: Extra | None = None


class Result(_Part, frozen=True, kw_only=True):
    source_call_id: str | None = None
    content: str | tuple[Content, ...] | None = None
    extra: Extra | None = None


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    results: tuple[Result, ...]


class AtifMetrics(_Part, frozen=True, kw_only=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    extra: Extra | None = None


class Step(_Part, frozen=True, kw_only=True):
    step_id: int
    timestamp: str
    source: Literal["system", "user", "agent"]
    message: str | tuple[Content, ...]
    model_name: str | None = None
    reasoning_content: str | None = None
    tool_calls: tuple[AtifCall, ...] | None = None
    observation: Observation | None = None
    metrics: AtifMetrics | None = None
    llm_call_count: int | None = None
    extra: Extra | None = None


class AtifAgent(_Part, frozen=True, kw_only=True):
    name: str
    version: str
    model_name: str | None = None


class FinalMetrics(_Part, frozen=True, kw_only=True):
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = None


class Trajectory(_Part, frozen=True, kw_only=True):
    schema_version: str
    session_id: str
    trajectory_id: str
    agent: AtifAgent
    steps: tuple[Step, ...]
    final_metrics: FinalMetrics
    extra: Extra | None = None


def atif(shown: Iterable[AnyEntry], whole: Metrics, blob: Blob, version: str) -> Trajectory:
    """From the entries of a transcript. The format wants a step at least; where nothing was said, there is none."""
    measured = {step.step_id: step for turn in whole.turns for step in turn.steps}
    opened: Opened | None = None
    steps: list[Step] = []
    ends: list[Extra] = []
    for entry in shown:
        if isinstance(entry, Opened):
            opened = entry
        elif isinstance(entry, Ended):
            ends.append(_end(entry))
        steps += _steps(entry, len(steps) + 1, measured, blob)
    usage = whole.usage
    return Trajectory(
        schema_version=ATIF_VERSION,
        session_id=opened.conversation_id if opened else "",
        trajectory_id=opened.conversation_id if opened else "",
        agent=AtifAgent(
            name="turnwright",
            version=(opened.turnwright if opened else "") or version,
            model_name=(opened.model if opened else "") or None,
        ),
        steps=tuple(steps),
        final_metrics=FinalMetrics(
            total_prompt_tokens=usage.input,
            total_completion_tokens=usage.output,
            total_cached_tokens=usage.cache_read,
            total_cost_usd=whole.cost_usd,
            total_steps=len(steps),
        ),
        extra=_filled({"title": opened.title, "parent": opened.parent} if opened else {}, turns=ends),
    )


def encode_atif_pieces(whole: Trajectory) -> Iterator[bytes]:
    """Step by step, so that the document is never in memory beside what it is made of."""
    head, _, tail = msgspec.json.encode(msgspec.structs.replace(whole, steps=())).partition(b'"steps":[]')
    yield head + b'"steps":['
    for place, step in enumerate(whole.steps):
        yield (b"," if place else b"") + msgspec.json.encode(step)
    yield b"]" + tail


def _steps(entry: AnyEntry, number: int, measured: dict[str, StepMetrics], blob: Blob) -> Iterator[Step]:
    at, seq = _time(entry.at), entry.seq
    match entry:
        case Asked() if entry.text or entry.images:
            message = _content(entry.text, entry.images)
            yield Step(step_id=number, timestamp=at, source="user", message=message, extra={"seq": seq})
        case Steered(text=text):
            yield Step(step_id=number, timestamp=at, source="user", message=text, extra={"seq": seq, "steering": True})
        case Noticed(to_model=True, text=text, code=code):
            yield Step(step_id=number, timestamp=at, source="system", message=text, extra={"seq": seq, "code": code})
        case Guarded(said=str(said), guard=guard):
            yield Step(step_id=number, timestamp=at, source="system", message=said, extra={"seq": seq, "guard": guard})
        case Condensed(digest=digest) if digest:
            extra = {"seq": seq, "digest_through_seq": entry.through_seq}
            yield Step(step_id=number, timestamp=at, source="system", message=digest, extra=extra)
        case Replied():
            yield _replied(entry, number, measured.get(entry.step_id or ""), blob)
        case Resulted(call=call):
            # Its own step is long over: it stands alone, and says whose result it is.
            result = msgspec.structs.replace(_result(call, blob), source_call_id=None)
            yield Step(
                step_id=number,
                timestamp=at,
                source="system",
                message="",
                observation=Observation(results=(result,)),
                extra={"seq": seq, "tool_call_id": call.call_id},
            )
        case _:
            pass


def _replied(entry: Replied, number: int, measured: StepMetrics | None, blob: Blob) -> Step:
    called = measured is not None and measured.attempts > 0
    return Step(
        step_id=number,
        timestamp=_time(entry.at),
        source="agent",
        message=entry.text,
        model_name=entry.route or None,
        reasoning_content="\n".join(entry.reasoning) or None,
        tool_calls=tuple(_call(call) for call in entry.calls) or None,
        observation=Observation(results=tuple(_result(call, blob) for call in entry.calls)) if entry.calls else None,
        metrics=_metrics(measured.usage, measured.cost_usd) if measured and called else None,
        llm_call_count=measured.attempts if measured and called else None,
        extra=_filled({"seq": entry.seq, "step_id": entry.step_id, "verdict": entry.verdict}),
    )


def _call(call: Call) -> AtifCall:
    return AtifCall(
        tool_call_id=call.call_id,
        function_name=call.name,
        arguments=msgspec.Raw(call.arguments.encode() or b"{}"),
        extra=_filled({"raw": call.raw, "problem": call.problem}),
    )


def _result(call: Call, blob: Blob) -> Result:
    output = call.output
    if call.output_blob is not None:
        output = (blob(call.output_blob.sha256) or b"").decode(errors="replace")
    return Result(
        source_call_id=call.call_id,
        content=_content(output, call.images),
        extra=_filled({"outcome": call.status, "duration_ms": call.duration_ms}, detail=call.detail),
    )


def _content(text: str, images: Iterable[Image]) -> str | tuple[Content, ...]:
    shown = tuple(_image(image) for image in images)
    return (Content(type="text", text=text), *shown) if shown else text


def _image(image: Image) -> Content:
    if image.media_type not in IMAGE_TYPES:
        return Content(type="text", text=f"[a picture of type {image.media_type}]")
    url = f"data:{image.media_type};base64,{image.data}"
    return Content(type="image", source=Source(media_type=image.media_type, path=url))


def _metrics(usage: Usage, cost_usd: float | None) -> AtifMetrics:
    return AtifMetrics(
        prompt_tokens=usage.input,
        completion_tokens=usage.output,
        cached_tokens=usage.cache_read,
        cost_usd=cost_usd,
        extra=_filled({"cache_write_tokens": usage.cache_write, "reasoning_tokens": usage.reasoning}),
    )


def _end(entry: Ended) -> Extra:
    said = {"turn_id": entry.turn_id, "reason": entry.reason, "detail": entry.detail, "duration_ms": entry.duration_ms}
    return {name: value for name, value in said.items() if value not in (None, "")}


def _filled(fields: Extra, **more: Any) -> Extra | None:
    found = {name: value for name, value in (fields | more).items() if value not in (None, "", [], {})}
    return found or None


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
