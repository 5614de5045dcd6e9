"""What an error object says, in any of the shapes that hosts give it. By status first, by its own words otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from turnwright.schema.parts import FOREIGN, UNREADABLE, Done, Part, Raw, StreamError
from turnwright.schema.verdicts import ErrorKind

MESSAGE_CHARS_MAX = 4_000
NESTING_MAX = 5
EVIDENCE_BYTES_MAX = 2_000

_STATUS_KINDS: dict[int, ErrorKind] = {
    401: "auth",
    402: "billing",
    403: "permission",
    404: "not_found",
    408: "timeout",
    409: "conflict",
    413: "too_large",
    425: "overloaded",
    429: "rate_limit",
    498: "overloaded",
    499: "cancelled",
    503: "overloaded",
    504: "timeout",
    524: "timeout",
    529: "overloaded",
}

_WORDS: tuple[tuple[ErrorKind, str], ...] = (
    ("bad_request", "invalid_request_error bad_request invalid_argument failed_precondition out_of_range"),
    ("bad_request", "context_length_exceeded exceed_context_size_error invalid_prompt unsupported_parameter"),
    ("bad_request", "unprocessable_entity validation_error invalid_image model_not_supported badrequesterror"),
    ("bad_request", "invalid_image_format invalid_base64_image invalid_image_url invalid_image_mode empty_image_file"),
    ("bad_request", "image_too_large image_too_small image_parse_error image_content_policy_violation bio_policy"),
    ("bad_request", "image_file_too_large unsupported_image_media_type failed_to_download_image image_file_not_found"),
    ("bad_request", "content_filter misalignment_policy_violation data_residency_mismatch tool_use_failed"),
    ("auth", "authentication_error invalid_api_key unauthorized unauthenticated api_key_invalid"),
    ("auth", "invalid_authentication invalid_authentication_error authenticationerror"),
    ("billing", "billing_error insufficient_quota payment_required insufficient_balance billing_not_active"),
    ("permission", "permission_error permission_denied forbidden access_denied permissiondeniederror"),
    ("not_found", "not_found_error not_found model_not_found notfounderror"),
    ("timeout", "timeout_error timeout request_timeout deadline_exceeded gateway_timeout vector_store_timeout"),
    ("conflict", "conflict_error conflict aborted already_exists"),
    ("too_large", "request_too_large payload_too_large content_too_large"),
    ("rate_limit", "rate_limit_error rate_limit_exceeded rate_limit resource_exhausted too_many_requests"),
    ("overloaded", "overloaded_error overloaded unavailable service_unavailable server_overloaded slow_down"),
    ("overloaded", "engine_overloaded engine_overloaded_error service_unavailable_error server_is_overloaded"),
    ("cancelled", "cancelled canceled"),
    ("server", "server_error api_error internal internal_error internal_server_error data_loss"),
    ("server", "internalservererror upstream_error bad_gateway"),
)
_WORD_KINDS: dict[str, ErrorKind] = {word: kind for kind, words in _WORDS for word in words.split()}


def kind_of_status(status: int) -> ErrorKind:
    if kind := _STATUS_KINDS.get(status):
        return kind
    return "server" if status >= 500 else "bad_request"


def kind_of_word(word: object) -> ErrorKind | None:
    """`word` is a code or a type; codes come as numbers, as numbers in strings and as words."""
    if isinstance(word, str):
        if not word.isdecimal():
            return _WORD_KINDS.get(word.strip().lower().replace(" ", "_"))
        word = int(word[:4])
    if isinstance(word, int) and not isinstance(word, bool) and 400 <= word <= 599:
        return kind_of_status(word)
    return None


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """An error as its sender words it; empty and None where it says nothing."""

    message: str = ""
    code: str = ""
    kind: ErrorKind | None = None


def error_in(body: Mapping[str, Any]) -> StreamError | None:
    """The error inside a body that came with success, if it carries one."""
    said = _said_in(body, 0)
    if said is None:
        return None
    return StreamError(
        kind=said.kind or "server", message=said.message or "The provider gave no words.", code=said.code
    )


def odd_frame(data: bytes, stream: bool) -> Sequence[Part]:
    """What a frame means that is not what its dialect says: the end mark, a stray error, or nothing we can read."""
    if data.strip() == b"[DONE]":
        return (Done(),)
    evidence = data[:EVIDENCE_BYTES_MAX].decode("utf-8", "replace")
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return (Raw(UNREADABLE, evidence),)
    if isinstance(value, list) and value:
        value = value[0]  # Gemini's errors come in an array where a stream was asked for
    error = error_in(value) if isinstance(value, dict) else None
    if error:
        return (error,)
    foreign = Raw(FOREIGN, evidence)
    return (foreign,) if stream else (foreign, Done())  # a document that parsed is whole, whatever it is


def error_of(status: int, body: bytes) -> StreamError:
    """The error that a status other than 2xx stands for. The status decides the kind: it is what the provider meant
    for programs, and it is there when the body is HTML or nothing."""
    said = _said_in_bytes(body)
    kind = kind_of_status(status)
    if kind == "bad_request" and said.code.upper() == "API_KEY_INVALID":
        kind = "auth"  # Gemini answers 400 to a wrong key; the remedy is the key
    message = said.message or body[:MESSAGE_CHARS_MAX].decode("utf-8", "replace").strip() or f"HTTP status {status}"
    no_tools = says_no_tools(message)
    if no_tools and kind == "server":
        kind = "bad_request"  # llama.cpp answers 500; what the server cannot do, it cannot do a second time either
    return StreamError(kind=kind, message=message, status=status, code=said.code, no_tools=no_tools)


NO_TOOLS: tuple[tuple[str, ...], ...] = (
    ("does not support tool",),  # Ollama, Mistral, Together
    ("not support function call",),  # Fireworks, SiliconFlow
    ("not support tool",),
    ("support tool use",),  # OpenRouter: no endpoints found that …
    ("tool calling", "is not supported"),  # Groq
    ("tools", "is not supported in this model"),
    ("tools", "not supported", "model"),  # OpenAI, of its older models
    ("function calling is not enabled",),  # Gemini
    ("tools param requires --jinja",),  # llama.cpp
    ("tool choice requires --enable-auto-tool-choice",),  # vLLM
)
"""Pieces of text, in lower case, that say it together."""


def says_no_tools(message: str) -> bool:
    """A fact about what can be done there, not an outage."""
    said = message.lower()
    return any(all(piece in said for piece in pieces) for pieces in NO_TOOLS)


def _said_in_bytes(body: bytes) -> Said:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return Said()
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return Said()
    return _said_in(value, 0) or _said_by(value, 0)


def _said_in(body: Mapping[str, Any], depth: int) -> Said | None:
    """`{"error": …}` in all its forms, and vLLM's `{"object": "error", …}`."""
    error = body.get("error")
    if isinstance(error, Mapping) and error:
        return _said_by(error, depth)
    if isinstance(error, list) and error and isinstance(error[0], Mapping):
        return _said_by(error[0], depth)
    errors = body.get("errors")
    if body.get("success") is False and isinstance(errors, list) and errors and isinstance(errors[0], Mapping):
        return _said_by(errors[0], depth)  # Cloudflare, in front of anything
    if isinstance(error, str) and error:
        code = body.get("code") or body.get("error_type") or body.get("status_code")
        return Said(message=_short(error), code=_word(code), kind=kind_of_word(code))
    if body.get("object") == "error" or (body.get("type") == "error" and "message" in body):
        return _said_by(body, depth)
    return None


def _said_by(error: Mapping[str, Any], depth: int) -> Said:
    code, type_ = error.get("code"), error.get("type") or error.get("status")
    kind = kind_of_word(code) or kind_of_word(type_) or kind_of_word(error.get("status_code"))
    inner = _wrapped(error, depth) if depth < NESTING_MAX else None
    reason = _reason(error.get("details"))
    return Said(
        message=(inner and inner.message) or _message(error),
        code=reason or (inner and inner.code) or _word(code) or _word(type_),
        kind=kind_of_word(reason) or (inner and inner.kind) or kind,
    )


def _wrapped(error: Mapping[str, Any], depth: int) -> Said | None:
    """A router hands on what the provider behind it said, as text in `metadata.raw`, sometimes wrapped again."""
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    if isinstance(raw, str) and raw:
        try:
            decoded = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError):
            return Said(message=_short(raw))
        raw = decoded if isinstance(decoded, Mapping) else {"message": raw}
    if not isinstance(raw, Mapping):
        return None
    return _said_in(raw, depth + 1) or _said_by(raw, depth + 1)


def _message(error: Mapping[str, Any]) -> str:
    for key in ("message", "Message", "detail", "msg", "error_description"):
        value = error.get(key)
        if isinstance(value, str) and value:
            return _short(value)
        if isinstance(value, list | Mapping) and value:
            return _short(msgspec.json.encode(value).decode())
    return ""


def _reason(details: object) -> str:
    """Google's ErrorInfo names the cause more closely than the status."""
    if isinstance(details, list):
        for detail in details:
            if isinstance(detail, Mapping) and isinstance(detail.get("reason"), str):
                return str(detail["reason"])
    return ""


def _word(value: object) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _short(text: str) -> str:
    return text[:MESSAGE_CHARS_MAX]
