"""Errors inside a success (P8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from turnwright.schema.verdicts import ErrorKind
from turnwright.testing.dialects.openai_chat import chunk
from turnwright.testing.dialects.openai_responses import failed as response_failed
from turnwright.testing.dialects.said import Frame, Said, SaidError, json_bytes
from turnwright.testing.exchange import streamed, whole
from turnwright.testing.fault_table.case import (
    Behaviour,
    Fault,
    Setting,
    failed,
    up_to,
)

RETRYABLE: frozenset[ErrorKind] = frozenset({"timeout", "conflict", "rate_limit", "overloaded", "server"})
STATUS_OF: dict[ErrorKind, int] = {"rate_limit": 429, "overloaded": 503, "server": 500, "auth": 401}


def _said(kind: ErrorKind) -> SaidError:
    return SaidError(kind=kind, message=f"scripted {kind}", status=STATUS_OF[kind])


def _known(setting: Setting, kind: ErrorKind) -> ErrorKind | None:
    """Ollama's errors are words only: what cannot be told is the server's fault."""
    if setting.dialect == "ollama":
        return "server" if kind == "server" else None
    return kind


def _document(kind: ErrorKind) -> Callable[[Setting], Behaviour | None]:
    def make(setting: Setting) -> Behaviour | None:
        if _known(setting, kind) is None or (setting.dialect.startswith("openai") and kind == "auth"):
            return None
        body = json_bytes(setting.speaker.error_body(_said(kind)))
        expected = failed("in_band_error", retryable=kind in RETRYABLE, error_kind=kind, status=200)
        return Behaviour(whole(200, "application/json", body), expected)

    return make


def _first_frame(kind: ErrorKind) -> Callable[[Setting], Behaviour | None]:
    def make(setting: Setting) -> Behaviour | None:
        if not setting.streaming or _known(setting, kind) is None:
            return None
        exchange = setting.of_frames([setting.speaker.error_frame(_said(kind))])
        return Behaviour(exchange, failed("in_band_error", error_kind=kind, status=200))

    return make


def _mid_stream(setting: Setting) -> Behaviour | None:
    """After two deltas of text; with tools in the middle of the call."""
    if not setting.streaming:
        return None
    kind: ErrorKind = "server" if setting.dialect == "ollama" else "overloaded"
    where = ("arguments" if setting.fragments else "call") if setting.tools else "text"
    sent = up_to(setting.frames(), where, 2 if setting.fragments or not setting.tools else 1)
    assert sent is not None, "every reply has these frames"
    exchange = setting.of_frames([*sent, setting.speaker.error_frame(_said(kind))])
    text = setting.text_of(sent)
    return Behaviour(exchange, failed("in_band_error", retryable=False, text=text, error_kind=kind, status=200))


def _response_failed(setting: Setting) -> Behaviour | None:
    """Responses has a second way: a response whose status is `failed`, streamed or not."""
    if setting.dialect != "openai-responses":
        return None
    one = response_failed(_said("server"))
    expected = failed("in_band_error", error_kind="server", status=200)
    if setting.streaming:
        return Behaviour(setting.of_frames([one]), expected)
    body = json_bytes(msgspec.json.decode(one.data)["response"])
    return Behaviour(whole(200, "application/json", body), expected)


def _openai(body: dict[str, Any], kind: ErrorKind) -> Callable[[Setting], Behaviour | None]:
    """Shapes that only hosts of OpenAI's chat dialect send."""

    def make(setting: Setting) -> Behaviour | None:
        if setting.dialect != "openai-chat":
            return None
        expected = failed("in_band_error", retryable=kind in RETRYABLE, error_kind=kind, status=200)
        data = json_bytes(body)
        if setting.streaming:
            return Behaviour(streamed(setting.content_type, [b"data: " + data + b"\n\n"]), expected)
        return Behaviour(whole(200, "application/json", data), expected)

    return make


def _finish_error(setting: Setting) -> Behaviour | None:
    """A `finish_reason` of `error` after some text: what came is not an answer."""
    if setting.dialect != "openai-chat" or setting.tools:
        return None
    said = Said(text=setting.said.text, finish="error")
    expected = failed("in_band_error", retryable=False, text="".join(said.text), status=200, finish="error")
    return Behaviour(setting.reply(said), expected)


def _finish_error_first(setting: Setting) -> Behaviour | None:
    """The same with the host's error beside it and no word before it."""
    if setting.dialect != "openai-chat":
        return None
    error = {"code": 502, "message": "Provider disconnected"}
    expected = failed("in_band_error", error_kind="server", status=200, finish="error")
    if not setting.streaming:
        message = {"role": "assistant", "content": ""}
        choice = {"index": 0, "message": message, "finish_reason": "error", "error": error}
        return Behaviour(whole(200, "application/json", json_bytes({"id": "1", "choices": [choice]})), expected)
    ended = msgspec.json.decode(chunk("finish", {"content": ""}, Said(), "error").data)
    ended["choices"][0]["error"] = error
    return Behaviour(setting.of_frames([Frame("finish", json_bytes(ended)), Frame("done", b"[DONE]")]), expected)


VLLM = {"object": "error", "message": "max_tokens must be at least 1", "type": "BadRequestError", "code": 400}
INNERMOST = {"error": {"message": "Rate limit exceeded", "type": "rate_limit_error", "code": "rate_limit_exceeded"}}
WRAPPED = {
    "error": {"message": "Provider returned error", "code": 429, "metadata": {"raw": json_bytes(INNERMOST).decode()}}
}
NESTED = {
    "error": {"message": "Provider returned error", "code": 429, "metadata": {"raw": json_bytes(WRAPPED).decode()}}
}
UNPARSABLE = {"error": {"message": "Provider returned error", "code": 502, "metadata": {"raw": "upstream <down>"}}}

FAULTS = (
    Fault("error-document", "A server error as a document with status 200", _document("server")),
    Fault("error-document-auth", "A refused key as a document with status 200", _document("auth")),
    Fault("error-first-server", "The first event is a server error", _first_frame("server")),
    Fault("error-first-overloaded", "The first event is an overload", _first_frame("overloaded")),
    Fault("error-first-rate-limit", "The first event is a rate limit", _first_frame("rate_limit")),
    Fault("error-mid-stream", "An error after part of the answer", _mid_stream),
    Fault("response-failed", "A response whose status is failed", _response_failed),
    Fault("finish-error", "finish_reason error after some text", _finish_error),
    Fault("finish-error-first", "finish_reason error before any text", _finish_error_first),
    Fault("vllm-error", "vLLM's object of type error", _openai(VLLM, "bad_request")),
    Fault("router-nested", "A router's error around a router's error", _openai(NESTED, "rate_limit")),
    Fault("router-raw-text", "A router's error around plain words", _openai(UNPARSABLE, "server")),
    Fault(
        "code-as-string",
        "The code is a number in a string",
        _openai({"error": {"code": "429", "message": "slow"}}, "rate_limit"),
    ),
    Fault("code-as-number", "The code is a number", _openai({"error": {"code": 503, "message": "busy"}}, "overloaded")),
    Fault("error-as-string", "The error is a string", _openai({"error": "the engine crashed"}, "server")),
)
