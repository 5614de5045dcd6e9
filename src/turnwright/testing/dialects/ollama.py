"""Ollama's own `/api/chat`, as it speaks it: one JSON object a line. Calls come whole, as objects."""

from __future__ import annotations

from typing import Any

from turnwright.testing.dialects.said import Frame, FrameKind, Said, SaidCall, SaidError, Speaker, frame, joined, parsed


def stream(said: Said) -> list[Frame]:
    frames = [_line("reasoning", said, {"content": "", "thinking": piece}) for piece in said.reasoning]
    frames += [_line("text", said, {"content": piece}) for piece in (*said.text, *said.refusal)]
    frames += [_line("call", said, {"content": "", "tool_calls": [_call(call)]}) for call in said.calls]
    return [*frames, frame("finish", _ended(said, {"content": ""}))]


def _call(call: SaidCall) -> dict[str, Any]:
    return {"function": {"name": call.name, "arguments": parsed(call)}}


def _line(kind: FrameKind, said: Said, message: dict[str, Any]) -> Frame:
    return frame(kind, {**_head(said), "message": {"role": "assistant", **message}, "done": False})


def _head(said: Said) -> dict[str, Any]:
    return {"model": said.model, "created_at": "2026-01-01T00:00:00.000000Z"}


def _ended(said: Said, message: dict[str, Any]) -> dict[str, Any]:
    reason = "length" if said.finish == "length" else "stop"
    body = {**_head(said), "message": {"role": "assistant", **message}, "done_reason": reason, "done": True}
    if said.usage:
        body |= {"prompt_eval_count": said.usage.input, "eval_count": said.usage.output, "total_duration": 5_000_000}
    return body


def document(said: Said) -> dict[str, Any]:
    message: dict[str, Any] = {"content": joined((*said.text, *said.refusal))}
    if said.reasoning:
        message["thinking"] = joined(said.reasoning)
    if said.calls:
        message["tool_calls"] = [_call(call) for call in said.calls]
    return _ended(said, message)


def error_body(error: SaidError) -> dict[str, Any]:
    return {"error": error.message}


SPEAKER = Speaker(
    stream=stream,
    document=document,
    error_body=error_body,
    error_frame=lambda error: frame("other", error_body(error)),
    idle_frame=Frame("other", b'{"message":{"role":"assistant","content":""},"done":false}'),
    framing="ndjson",
)
