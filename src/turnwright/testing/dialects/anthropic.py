"""Anthropic Messages, as a provider speaks it."""

from __future__ import annotations

from typing import Any

from turnwright.schema.verdicts import ErrorKind, FinishClass
from turnwright.testing.dialects.said import Frame, FrameKind, Said, SaidError, Speaker, frame, joined, parsed

FINISHES: dict[FinishClass, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "other": "pause_turn",
}
ERRORS: dict[ErrorKind, str] = {
    "bad_request": "invalid_request_error",
    "auth": "authentication_error",
    "billing": "billing_error",
    "permission": "permission_error",
    "not_found": "not_found_error",
    "timeout": "timeout_error",
    "conflict": "conflict_error",
    "too_large": "request_too_large",
    "rate_limit": "rate_limit_error",
    "overloaded": "overloaded_error",
    "cancelled": "cancelled",
    "server": "api_error",
}


def stream(said: Said) -> list[Frame]:
    usage = {"input_tokens": said.usage.input, "output_tokens": 1} if said.usage else {}
    message = {**_message(said), "content": [], "stop_reason": None, "usage": usage}
    frames = [_event("start", "message_start", message=message)]
    index = 0
    if said.reasoning:
        frames += _block(index, {"type": "thinking", "thinking": "", "signature": ""}, "reasoning", "closing", [
            *({"type": "thinking_delta", "thinking": piece} for piece in said.reasoning),
            {"type": "signature_delta", "signature": "c2lnbmVk"},
        ])  # fmt: skip
        index += 1
    words = said.text or said.refusal
    if words:
        pieces = [{"type": "text_delta", "text": piece} for piece in words]
        frames += _block(index, {"type": "text", "text": ""}, "text", "closing", pieces)
        index += 1
    for call in said.calls:
        opening = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in call.fragments]
        frames += _block(index, opening, "arguments", "call", pieces)
        index += 1
    delta = {"stop_reason": FINISHES[said.finish], "stop_sequence": None}
    out = {"output_tokens": said.usage.output} if said.usage else {}
    frames.append(_event("finish", "message_delta", delta=delta, usage=out))
    return [*frames, _event("done", "message_stop")]


def _block(
    index: int, block: dict[str, Any], kind: FrameKind, start: FrameKind, deltas: list[dict[str, Any]]
) -> list[Frame]:
    return [
        _event(start, "content_block_start", index=index, content_block=block),
        *(_event(kind, "content_block_delta", index=index, delta=delta) for delta in deltas),
        _event("closing", "content_block_stop", index=index),
    ]


def _event(kind: FrameKind, name: str, **fields: Any) -> Frame:
    return frame(kind, {"type": name, **fields}, name)


def _message(said: Said) -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": said.model, "stop_sequence": None}


def document(said: Said) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if said.reasoning:
        content.append({"type": "thinking", "thinking": joined(said.reasoning), "signature": "c2lnbmVk"})
    if words := said.text or said.refusal:
        content.append({"type": "text", "text": joined(words)})
    content += [{"type": "tool_use", "id": call.id, "name": call.name, "input": parsed(call)} for call in said.calls]
    body = {**_message(said), "content": content, "stop_reason": FINISHES[said.finish]}
    if said.usage:
        body["usage"] = {"input_tokens": said.usage.input, "output_tokens": said.usage.output}
    return body


def error_body(error: SaidError) -> dict[str, Any]:
    return {"type": "error", "error": {"type": ERRORS[error.kind], "message": error.message}, "request_id": "req_1"}


SPEAKER = Speaker(
    stream=stream,
    document=document,
    error_body=error_body,
    error_frame=lambda error: frame("other", error_body(error), "error"),
    idle_frame=Frame("other", b'{"type":"ping"}', "ping"),
)
