"""OpenAI Chat Completions, as a provider speaks it."""

from __future__ import annotations

from typing import Any

from turnwright.schema.parts import Usage
from turnwright.schema.verdicts import ErrorKind, FinishClass
from turnwright.testing.dialects.said import Frame, FrameKind, Said, SaidCall, SaidError, Speaker, frame, joined, total

FINISHES: dict[FinishClass, str] = {"other": "stop"}
ERRORS: dict[ErrorKind, tuple[str, str | None]] = {
    "bad_request": ("invalid_request_error", None),
    "auth": ("invalid_request_error", "invalid_api_key"),
    "billing": ("insufficient_quota", "insufficient_quota"),
    "permission": ("permission_error", "forbidden"),
    "not_found": ("invalid_request_error", "model_not_found"),
    "timeout": ("timeout", "request_timeout"),
    "conflict": ("conflict_error", "conflict"),
    "too_large": ("invalid_request_error", "request_too_large"),
    "rate_limit": ("requests", "rate_limit_exceeded"),
    "overloaded": ("service_unavailable_error", "server_overloaded"),
    "cancelled": ("cancelled", "cancelled"),
    "server": ("server_error", None),
}


def stream(said: Said) -> list[Frame]:
    frames = [chunk("start", {"role": "assistant", "content": ""}, said)]
    frames += [chunk("reasoning", {"reasoning_content": piece}, said) for piece in said.reasoning]
    frames += [chunk("text", {"content": piece}, said) for piece in said.text]
    frames += [chunk("refusal", {"refusal": piece}, said) for piece in said.refusal]
    for index, call in enumerate(said.calls):
        frames.append(chunk("call", {"tool_calls": [opening(index, call)]}, said))
        frames += [chunk("arguments", {"tool_calls": [piece_of(index, piece)]}, said) for piece in call.fragments]
    frames.append(chunk("finish", {}, said, FINISHES.get(said.finish, said.finish)))
    if said.usage:
        frames.append(frame("usage", {**_head(said), "choices": [], "usage": _usage(said.usage)}))
    return [*frames, Frame("done", b"[DONE]")]


def chunk(kind: FrameKind, delta: dict[str, Any], said: Said, finish: str | None = None) -> Frame:
    return frame(kind, {**_head(said), "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def opening(index: int, call: SaidCall) -> dict[str, Any]:
    return {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}


def piece_of(index: int, fragment: str) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": fragment}}


def _head(said: Said) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": said.model}


def _usage(usage: Usage) -> dict[str, Any]:
    return {"prompt_tokens": usage.input, "completion_tokens": usage.output, "total_tokens": total(usage)}


def document(said: Said) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": joined(said.text) or None}
    if said.reasoning:
        message["reasoning_content"] = joined(said.reasoning)
    if said.refusal:
        message["refusal"] = joined(said.refusal)
    if said.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in said.calls
        ]
    finish = FINISHES.get(said.finish, said.finish)
    body = {**_head(said), "object": "chat.completion"}
    body["choices"] = [{"index": 0, "message": message, "finish_reason": finish}]
    return {**body, "usage": _usage(said.usage)} if said.usage else body


def error_body(error: SaidError) -> dict[str, Any]:
    type_, code = ERRORS[error.kind]
    return {"error": {"message": error.message, "type": type_, "param": None, "code": code}}


SPEAKER = Speaker(
    stream=stream,
    document=document,
    error_body=error_body,
    error_frame=lambda error: frame("other", error_body(error)),
    idle_frame=Frame(
        "other", b'{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]}'
    ),
)
