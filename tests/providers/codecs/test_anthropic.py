"""Anthropic: requests we make, and what recorded traffic does not show."""

from __future__ import annotations

from typing import Any

import pytest
from codec_samples import (
    MARKED_STOP,
    PLAIN,
    SCHEMA,
    STOP,
    conversation,
    encoded,
    parts_of,
    prompt_of,
    request,
    said,
)

from turnwright.providers.codec import Quirks
from turnwright.providers.codecs.anthropic import Anthropic
from turnwright.schema.messages import AssistantMessage, Reasoning, UserMessage
from turnwright.schema.parts import (
    Done,
    Finish,
    Part,
    Raw,
    ReasoningPart,
    Start,
    StreamError,
    Text,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    UsagePart,
)

CODEC = Anthropic()
CACHED = {"cache_control": {"type": "ephemeral"}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}


def test_a_request() -> None:
    assert request(CODEC, prompt_of(*conversation()), Quirks(default_max_output_tokens=99)) == {
        "model": "m",
        "max_tokens": 99,
        "stream": True,
        "tools": [
            {"name": "read", "description": "Reads.", "input_schema": SCHEMA},
            {"name": "shot", "description": "Looks.", "input_schema": SCHEMA, **CACHED},
        ],
        "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Here.", **CACHED}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "See"}, IMAGE]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}},
                    {"type": "tool_use", "id": "b_2", "name": "shot", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "no such file", "is_error": True},
                    {"type": "tool_result", "tool_use_id": "b_2", "content": [{"type": "text", "text": "done"}, IMAGE]},
                ],
            },
            {"role": "user", "content": [{"type": "text", "text": MARKED_STOP, **CACHED}]},
        ],
    }


def test_what_was_sent_stays_a_prefix_but_for_the_cache_mark() -> None:
    first = CODEC.encode_message(UserMessage(text="Hi"), "r", PLAIN)
    second = CODEC.encode_message(AssistantMessage(text="Yes?", route="r"), "r", PLAIN)
    third = CODEC.encode_message(UserMessage(text="Go"), "r", PLAIN)
    one = CODEC.encode_request(prompt_of(UserMessage(text="Hi")), "m", first, True, PLAIN)
    history = (UserMessage(text="Hi"), AssistantMessage(text="Yes?", route="r"), UserMessage(text="Go"))
    two = CODEC.encode_request(prompt_of(*history), "m", b",".join((first, second, third)), True, PLAIN)
    mark = b',"cache_control":{"type":"ephemeral"}}]}'
    assert two.startswith(one.removesuffix(mark + b"]}"))


def test_a_last_step_without_tools_names_those_of_the_past_and_allows_none() -> None:
    sent = request(CODEC, prompt_of(*conversation(), tools=()))
    assert sent["tools"] == [{"name": name, "input_schema": {"type": "object"}} for name in ("read", "shot")]
    assert sent["tool_choice"] == {"type": "none"}


def test_no_tools_at_all() -> None:
    assert "tools" not in request(CODEC, prompt_of(UserMessage(text="Hi"), tools=()))


def test_one_call_at_a_time() -> None:
    sent = request(CODEC, prompt_of(UserMessage(text="Hi")), Quirks(parallel_tool_calls=False))
    assert sent["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


def test_signed_thoughts_go_back_to_their_route_only() -> None:
    message = said(
        Reasoning(text="hm", signature="s"),
        Reasoning(text="unsigned"),
        Reasoning(opaque='{"type":"redacted_thinking","data":"d"}'),
        Reasoning(opaque='{"type":"reasoning"}'),
        Reasoning(opaque="not JSON"),
    )
    (own,) = encoded(CODEC, message)
    assert own["content"][:2] == [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
    ]
    assert [block["type"] for block in own["content"][2:]] == ["text", "tool_use", "tool_use"]
    (other,) = encoded(CODEC, message, route="other")
    assert [block["type"] for block in other["content"]] == ["text", "tool_use", "tool_use"]


@pytest.mark.parametrize(
    "message", [UserMessage(text=" "), AssistantMessage(reasoning=(Reasoning(text="x", signature="s"),), route="r")]
)
def test_what_would_be_refused_is_not_sent(message: UserMessage | AssistantMessage) -> None:
    assert CODEC.encode_message(message, "r", PLAIN) == b""


def test_the_runtime_is_marked_whatever_the_quirks_say() -> None:
    assert encoded(CODEC, STOP, Quirks(runtime_role="system")) == [
        {"role": "user", "content": [{"type": "text", "text": MARKED_STOP}]}
    ]


def delta(index: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": more}


def begun(index: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": more}


def ended(index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


STREAMS: dict[str, tuple[list[dict[str, Any] | str], list[Part]]] = {
    "thinking, then text": (
        [
            {
                "type": "message_start",
                "message": {
                    "id": "x",
                    "model": "m",
                    "usage": {"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 1},
                },
            },
            begun(0, type="thinking", thinking="", signature=""),
            delta(0, type="thinking_delta", thinking="hm"),
            delta(0, type="signature_delta", signature="s"),
            ended(0),
            {"type": "ping"},
            begun(1, type="redacted_thinking", data="d"),
            ended(1),
            begun(2, type="text", text=""),
            delta(2, type="text_delta", text="Hi"),
            ended(2),
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
            {"type": "message_stop"},
        ],
        [
            Start(model="m", response_id="x"),
            UsagePart(usage=Usage(input=12, output=1, cache_read=7), reported=Usage(input=5, output=1, cache_read=7)),
            ReasoningPart("hm", 0),
            ReasoningPart(block=0, signature="s"),
            ReasoningPart(block=1, opaque='{"type":"redacted_thinking","data":"d"}'),
            Text("Hi"),
            Finish(raw="end_turn", finish="stop"),
            UsagePart(usage=Usage(input=12, output=9, cache_read=7), reported=Usage(input=5, output=9, cache_read=7)),
            Done(),
        ],
    ),
    "a call": (
        [
            begun(1, type="tool_use", id="t", name="read", input={}),
            delta(1, type="input_json_delta", partial_json=""),
            delta(1, type="input_json_delta", partial_json='{"a":1}'),
            ended(1),
        ],
        [
            ToolCallStart(index=1, id="t", name="read"),
            ToolCallArguments(fragment='{"a":1}', index=1),
            ToolCallEnd(index=1),
        ],
    ),
    "a call whose input came with its start": (
        [begun(1, type="tool_use", id="t", name="read", input={"a": 1}), ended(1)],
        [ToolCallStart(index=1, id="t", name="read"), ToolCallEnd(index=1, arguments='{"a":1}')],
    ),
    "a tool of the server's": (
        [
            begun(0, type="server_tool_use", id="s", name="web_search", input={}),
            delta(0, type="input_json_delta", partial_json='{"q":1}'),
            ended(0),
        ],
        [
            Raw("server_tool_use", '{"type":"server_tool_use","id":"s","name":"web_search","input":{}}'),
            Raw("server_tool_use", '{"q":1}'),
        ],
    ),
    "an error in the stream": (
        [{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}],
        [StreamError(kind="overloaded", message="Overloaded", code="overloaded_error")],
    ),
    "a new kind of event": ([{"type": "news"}], [Raw("foreign", '{"type":"news"}')]),
    "not JSON": (["<html>"], [Raw("unreadable", "<html>")]),
}


@pytest.mark.parametrize("case", STREAMS)
def test_streams(case: str) -> None:
    frames, expected = STREAMS[case]
    assert parts_of(CODEC, *frames) == expected


@pytest.mark.parametrize(
    ("raw", "finish"),
    [("model_context_window_exceeded", "length"), ("pause_turn", "other"), ("refusal", "content_filter")],
)
def test_finishes(raw: str, finish: str) -> None:
    frame = {"type": "message_delta", "delta": {"stop_reason": raw}}
    assert parts_of(CODEC, frame) == [Finish(raw=raw, finish=finish)]  # type: ignore[arg-type]


def test_a_document() -> None:
    body = {
        "type": "message",
        "id": "x",
        "model": "m",
        "content": [
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "t", "name": "read", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
    }
    assert parts_of(CODEC, body, stream=False) == [
        Start(model="m", response_id="x"),
        Text("Hi"),
        ToolCallStart(index=1, id="t", name="read"),
        ToolCallArguments(fragment='{"a":1}', index=1, id="t"),
        ToolCallEnd(index=1, id="t"),
        Finish(raw="tool_use", finish="tool_calls"),
        Done(),
    ]


def test_a_document_of_another_kind_is_whole_but_empty() -> None:
    assert parts_of(CODEC, {"status": "ok"}, stream=False) == [Raw("foreign", '{"status":"ok"}'), Done()]
