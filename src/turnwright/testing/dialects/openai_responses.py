"""OpenAI Responses, as a provider speaks it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from turnwright.schema.verdicts import ErrorKind
from turnwright.testing.dialects.said import Frame, FrameKind, Said, SaidError, Speaker, frame, joined, total

ERRORS: dict[ErrorKind, tuple[str, str | None]] = {
    "bad_request": ("invalid_request_error", "invalid_prompt"),
    "auth": ("invalid_request_error", "invalid_api_key"),
    "billing": ("insufficient_quota", "insufficient_quota"),
    "permission": ("permission_error", "forbidden"),
    "not_found": ("invalid_request_error", "model_not_found"),
    "timeout": ("timeout", "request_timeout"),
    "conflict": ("conflict_error", "conflict"),
    "too_large": ("invalid_request_error", "request_too_large"),
    "rate_limit": ("requests", "rate_limit_exceeded"),
    "overloaded": ("service_unavailable_error", "server_is_overloaded"),
    "cancelled": ("cancelled", "cancelled"),
    "server": ("server_error", "server_error"),
}


def stream(said: Said) -> list[Frame]:
    frames = [
        _event("start", "response.created", response=_response(said, "in_progress", [])),
        _event("start", "response.in_progress", response=_response(said, "in_progress", [])),
    ]
    for index, item in enumerate(_items(said)):
        kind: FrameKind = "call" if item["type"] == "function_call" else "closing"
        frames.append(_event(kind, "response.output_item.added", output_index=index, item=_begun(item)))
        frames += _inside(said, index, item)
        frames.append(_event("closing", "response.output_item.done", output_index=index, item=item))
    event = "response.completed" if _incomplete(said) is None else "response.incomplete"
    frames.append(_event("finish", event, response=_finished(said)))
    return list(_numbered(frames))


def _event(kind: FrameKind, name: str, **fields: Any) -> Frame:
    return frame(kind, {"type": name, **fields}, name)


def _numbered(frames: list[Frame]) -> Iterator[Frame]:
    for number, one in zip(count(), frames, strict=False):
        yield Frame(one.kind, one.data[:-1] + b',"sequence_number":%d}' % number, one.event)


def _items(said: Said) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if said.reasoning:
        summary = [{"type": "summary_text", "text": joined(said.reasoning)}]
        items.append({"id": "rs_1", "type": "reasoning", "summary": summary})
    if said.text or said.refusal:
        content: list[dict[str, Any]] = []
        if said.text:
            content.append({"type": "output_text", "annotations": [], "text": joined(said.text)})
        if said.refusal:
            content.append({"type": "refusal", "refusal": joined(said.refusal)})
        items.append({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": content})
    for number, call in enumerate(said.calls):
        items.append(
            {
                "id": f"fc_{number}",
                "type": "function_call",
                "status": "completed",
                "arguments": call.arguments,
                "call_id": call.id,
                "name": call.name,
            }
        )
    return items


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    match item["type"]:
        case "reasoning":
            return {**item, "summary": []}
        case "message":
            return {**item, "status": "in_progress", "content": []}
        case _:
            return {**item, "status": "in_progress", "arguments": ""}


def _inside(said: Said, index: int, item: dict[str, Any]) -> list[Frame]:
    place = {"item_id": item["id"], "output_index": index}
    match item["type"]:
        case "reasoning":
            place |= {"summary_index": 0}
            name = "response.reasoning_summary_text.delta"
            part = {"type": "summary_text", "text": ""}
            added = _event("closing", "response.reasoning_summary_part.added", **place, part=part)
            done = _event("closing", "response.reasoning_summary_text.done", **place, text=joined(said.reasoning))
            return [added, *(_event("reasoning", name, **place, delta=piece) for piece in said.reasoning), done]
        case "message":
            return _inside_message(said, place)
        case _:
            call = said.calls[int(item["id"].removeprefix("fc_"))]
            name = "response.function_call_arguments"
            pieces = [_event("arguments", f"{name}.delta", **place, delta=piece) for piece in call.fragments]
            return [*pieces, _event("closing", f"{name}.done", **place, arguments=call.arguments)]


def _inside_message(said: Said, place: dict[str, Any]) -> list[Frame]:
    frames: list[Frame] = []
    place = {**place, "content_index": 0}
    if said.text:
        part = {"type": "output_text", "annotations": [], "text": ""}
        frames.append(_event("closing", "response.content_part.added", **place, part=part))
        frames += [_event("text", "response.output_text.delta", **place, delta=piece) for piece in said.text]
        frames.append(_event("closing", "response.output_text.done", **place, text=joined(said.text)))
        part = {**part, "text": joined(said.text)}
        frames.append(_event("closing", "response.content_part.done", **place, part=part))
        place["content_index"] = 1
    if said.refusal:
        frames += [_event("refusal", "response.refusal.delta", **place, delta=piece) for piece in said.refusal]
        frames.append(_event("closing", "response.refusal.done", **place, refusal=joined(said.refusal)))
    return frames


def _incomplete(said: Said) -> str | None:
    return {"length": "max_output_tokens", "content_filter": "content_filter"}.get(said.finish)


def _finished(said: Said) -> dict[str, Any]:
    reason = _incomplete(said)
    body = _response(said, "completed" if reason is None else "incomplete", _items(said))
    if reason is not None:
        body["incomplete_details"] = {"reason": reason}
    if said.usage:
        body["usage"] = {
            "input_tokens": said.usage.input,
            "output_tokens": said.usage.output,
            "total_tokens": total(said.usage),
        }
    return body


def _response(said: Said, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": said.model,
        "output": output,
        "usage": None,
    }


def error_body(error: SaidError) -> dict[str, Any]:
    type_, code = ERRORS[error.kind]
    return {"error": {"message": error.message, "type": type_, "param": None, "code": code}}


def _error_frame(error: SaidError) -> Frame:
    code = ERRORS[error.kind][1]
    return _event("other", "error", code=code, message=error.message, param=None, sequence_number=9)


def failed(error: SaidError) -> Frame:
    """The other way in which a stream says that it failed."""
    body = _response(Said(), "failed", [])
    body["error"] = {"code": ERRORS[error.kind][1], "message": error.message}
    return _event("other", "response.failed", response=body)


SPEAKER = Speaker(
    stream=stream,
    document=_finished,
    error_body=error_body,
    error_frame=_error_frame,
    idle_frame=_event("other", "keepalive", sequence_number=3),
)
