"""Google Gemini, as a provider speaks it with `alt=sse`. Calls come whole, as objects."""

from __future__ import annotations

from typing import Any

from turnwright.schema.verdicts import ErrorKind, FinishClass
from turnwright.testing.dialects.said import (
    Frame,
    FrameKind,
    Said,
    SaidCall,
    SaidError,
    Speaker,
    frame,
    joined,
    parsed,
    total,
)

FINISHES: dict[FinishClass, str] = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_calls": "STOP",
    "content_filter": "SAFETY",
    "error": "MALFORMED_FUNCTION_CALL",
    "other": "OTHER",
}
ERRORS: dict[ErrorKind, str] = {
    "bad_request": "INVALID_ARGUMENT",
    "auth": "UNAUTHENTICATED",
    "billing": "FAILED_PRECONDITION",
    "permission": "PERMISSION_DENIED",
    "not_found": "NOT_FOUND",
    "timeout": "DEADLINE_EXCEEDED",
    "conflict": "ABORTED",
    "too_large": "INVALID_ARGUMENT",
    "rate_limit": "RESOURCE_EXHAUSTED",
    "overloaded": "UNAVAILABLE",
    "cancelled": "CANCELLED",
    "server": "INTERNAL",
}


def stream(said: Said) -> list[Frame]:
    frames = [_chunk("reasoning", said, [{"text": piece, "thought": True}]) for piece in said.reasoning]
    frames += [_chunk("text", said, [{"text": piece}]) for piece in (*said.text, *said.refusal)]
    frames += [_chunk("call", said, [_call(call)]) for call in said.calls]
    return [*frames, frame("finish", document(Said(finish=said.finish, usage=said.usage, model=said.model)))]


def _call(call: SaidCall) -> dict[str, Any]:
    said = {"name": call.name, "args": parsed(call)}
    return {"functionCall": {**said, "id": call.id} if call.id else said}


def _chunk(kind: FrameKind, said: Said, parts: list[dict[str, Any]]) -> Frame:
    candidate = {"content": {"parts": parts, "role": "model"}, "index": 0}
    return frame(kind, {"candidates": [candidate], "modelVersion": said.model, "responseId": "r1"})


def document(said: Said) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if said.reasoning:
        parts.append({"text": joined(said.reasoning), "thought": True})
    if words := (*said.text, *said.refusal):
        parts.append({"text": joined(words)})
    parts += [_call(call) for call in said.calls]
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}} if parts else {}
    candidate |= {"finishReason": FINISHES[said.finish], "index": 0}
    body: dict[str, Any] = {"candidates": [candidate], "modelVersion": said.model, "responseId": "r1"}
    if said.usage:
        body["usageMetadata"] = {
            "promptTokenCount": said.usage.input,
            "candidatesTokenCount": said.usage.output,
            "totalTokenCount": total(said.usage),
        }
    return body


def error_body(error: SaidError) -> dict[str, Any]:
    return {"error": {"code": error.status, "message": error.message, "status": ERRORS[error.kind]}}


SPEAKER = Speaker(
    stream=stream,
    document=document,
    error_body=error_body,
    error_frame=lambda error: frame("other", error_body(error)),
    idle_frame=Frame("other", b'{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"index":0}]}'),
)
