"""Responses: requests we make, and what recorded traffic does not show."""

from __future__ import annotations

from typing import Any

import pytest
from codec_samples import (
    MARKED_STOP,
    PLAIN,
    RESULTS,
    SCHEMA,
    SHOWN,
    STOP,
    conversation,
    encoded,
    parts_of,
    prompt_of,
    request,
    said,
)

from turnwright.providers.codec import Quirks
from turnwright.providers.codecs.openai_responses import OpenAIResponses
from turnwright.schema.messages import Reasoning, UserMessage
from turnwright.schema.parts import (
    Done,
    Finish,
    Part,
    Raw,
    ReasoningPart,
    Refusal,
    Start,
    StreamError,
    Text,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
)

CODEC = OpenAIResponses()
URL = "data:image/png;base64,QUJD"


def test_a_request() -> None:
    quirks = Quirks(reasoning_replay="with_calls", tool_images=True, parallel_tool_calls=True)
    assert request(CODEC, prompt_of(*conversation(), max_output_tokens=9), quirks) == {
        "model": "m",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 9,
        "parallel_tool_calls": True,
        "tools": [
            {"type": "function", "name": "read", "description": "Reads.", "parameters": SCHEMA, "strict": False},
            {"type": "function", "name": "shot", "description": "Looks.", "parameters": SCHEMA, "strict": False},
        ],
        "instructions": "Be brief.\n\nHere.",
        "input": [
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "See"}, {"type": "input_image", "image_url": URL}],
            },
            {"role": "assistant", "content": "I look."},
            {"type": "function_call", "call_id": "a", "name": "read", "arguments": '{"path":"x"}'},
            {"type": "function_call", "call_id": "b.2", "name": "shot", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "no such file"},
            {
                "type": "function_call_output",
                "call_id": "b.2",
                "output": [{"type": "input_text", "text": "done"}, {"type": "input_image", "image_url": URL}],
            },
            {"role": "system", "content": "Stop."},
        ],
    }


def test_images_of_tools_follow_where_a_result_cannot_hold_them() -> None:
    sent = encoded(CODEC, RESULTS)
    assert sent[1:] == [
        {"type": "function_call_output", "call_id": "b.2", "output": "done"},
        {
            "role": "user",
            "content": [{"type": "input_text", "text": SHOWN}, {"type": "input_image", "image_url": URL}],
        },
    ]


def test_the_runtime_as_a_marked_user() -> None:
    assert encoded(CODEC, STOP, Quirks(runtime_role="user")) == [{"role": "user", "content": MARKED_STOP}]


def test_reasoning_items_go_back_whole_to_their_route_only() -> None:
    item = '{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"e"}'
    message = said(Reasoning(opaque=item), Reasoning(opaque='{"type":"reasoning","id":"rs2"}'), Reasoning(text="x"))
    quirks = Quirks(reasoning_replay="with_calls")
    reasoning = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"}
    assert encoded(CODEC, message, quirks)[0] == reasoning
    assert encoded(CODEC, message, PLAIN)[0] == {"role": "assistant", "content": "I look."}
    assert encoded(CODEC, message, quirks, route="other")[0] == {"role": "assistant", "content": "I look."}


def test_a_plain_request_asks_for_nothing_special() -> None:
    assert request(CODEC, prompt_of(UserMessage(text="Hi"), tools=(), system=()), stream=False) == {
        "model": "m",
        "stream": False,
        "store": False,
        "input": [{"role": "user", "content": "Hi"}],
    }


def event(kind: str, index: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "output_index": index, **more}


def completed(*output: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"id": "x", "status": status, "output": list(output), **more}}


MESSAGE = {"type": "message", "id": "m1", "content": [{"type": "output_text", "text": "Hi"}]}
CALL = {"type": "function_call", "id": "f1", "call_id": "c", "name": "read", "arguments": "{}"}
STOPPED: list[Part] = [Finish(raw="completed", finish="stop"), Done()]
CALLED: list[Part] = [Finish(raw="completed", finish="tool_calls"), Done()]

STREAMS: dict[str, tuple[list[dict[str, Any] | str], list[Part]]] = {
    "text in deltas is not said again by what ends it": (
        [
            event("output_item.added", item={"type": "message", "id": "m1", "content": []}),
            event("output_text.delta", content_index=0, delta="H"),
            event("output_text.delta", content_index=0, delta="i"),
            event("output_text.done", content_index=0, text="Hi"),
            event("output_item.done", item=MESSAGE),
            completed(MESSAGE),
        ],
        [Text("H"), Text("i"), *STOPPED],
    ),
    "items only when done": ([event("output_item.done", item=MESSAGE), completed()], [Text("Hi"), *STOPPED]),
    "items only at the end": ([completed(MESSAGE)], [Text("Hi"), *STOPPED]),
    "a call in deltas": (
        [
            event("output_item.added", 1, item=CALL | {"arguments": ""}),
            event("function_call_arguments.delta", 1, item_id="f1", delta="{"),
            event("function_call_arguments.delta", 1, item_id="f1", delta="}"),
            event("function_call_arguments.done", 1, arguments="{}"),
            event("output_item.done", 1, item=CALL),
            completed(),
        ],
        [
            ToolCallStart(index=1, id="c", name="read"),
            ToolCallArguments(fragment="{", index=1),
            ToolCallArguments(fragment="}", index=1),
            ToolCallEnd(index=1, arguments="{}"),
            *CALLED,
        ],
    ),
    "a call and a text that come whole, and nothing else": (
        [
            event("output_item.added", item=CALL | {"arguments": ""}),
            event("function_call_arguments.done", arguments='{"path":"a"}'),
            event("output_text.done", 1, content_index=0, text="Hi"),
            event("output_text.done", 1, content_index=0, text="Hi"),
            event("refusal.done", 2, content_index=0, refusal="No"),
            completed(),
        ],
        [
            ToolCallStart(index=0, id="c", name="read"),
            ToolCallArguments(fragment='{"path":"a"}', index=0),
            Text("Hi"),
            Refusal("No"),
            *CALLED,
        ],
    ),
    "a last account that leaves out what came first": (
        [
            event("output_item.added", 0, item={"type": "reasoning", "id": "rs"}),
            event("output_item.added", 1, item=MESSAGE | {"id": "m", "content": []}),
            event("output_text.delta", 1, content_index=0, item_id="m", delta="Hi"),
            completed(MESSAGE | {"id": "m"}),
        ],
        [Text("Hi"), *STOPPED],
    ),
    "a call without indices": (
        [
            {"type": "response.output_item.added", "item": MESSAGE},
            {"type": "response.output_item.added", "item": CALL},
            {"type": "response.function_call_arguments.delta", "item_id": "f1", "delta": "{}"},
            {"type": "response.function_call_arguments.delta", "delta": " "},
        ],
        [
            ToolCallStart(index=1, id="c", name="read"),
            ToolCallArguments(fragment="{}", index=1),
            ToolCallArguments(fragment=" ", index=1),
        ],
    ),
    "a free-form call": (
        [
            event(
                "output_item.done",
                item={"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": 'a "b"'},
            )
        ],
        [ToolCallStart(index=0, id="c", name="patch"), ToolCallEnd(index=0, arguments='{"input":"a \\"b\\""}')],
    ),
    "reasoning, then its item": (
        [
            event("reasoning_summary_text.delta", summary_index=0, delta="h"),
            event("reasoning_summary_text.delta", summary_index=0, delta="m"),
            event("output_item.done", item={"type": "reasoning", "summary": [{"text": "hm"}]}),
        ],
        [
            ReasoningPart("h", 0),
            ReasoningPart("m", 0),
            ReasoningPart(block=0, opaque='{"type":"reasoning","summary":[{"text":"hm"}]}'),
        ],
    ),
    "a refusal": (
        [event("refusal.delta", content_index=0, delta="No"), event("refusal.delta", content_index=0, delta=".")],
        [Refusal("No"), Refusal(".")],
    ),
    "cut at the limit": (
        [completed(status="incomplete", incomplete_details={"reason": "max_output_tokens"})],
        [Finish(raw="incomplete:max_output_tokens", finish="length"), Done()],
    ),
    "failed": (
        [completed(status="failed", error={"code": "rate_limit_exceeded", "message": "Slow down"})],
        [
            StreamError(kind="rate_limit", message="Slow down", code="rate_limit_exceeded"),
            Finish(raw="failed", finish="error"),
            Done(),
        ],
    ),
    "cancelled": (
        [{"type": "response.cancelled", "response": {"status": "cancelled", "output": []}}],
        [
            StreamError(kind="cancelled", message="The provider ended the response as 'cancelled'."),
            Finish(raw="cancelled", finish="other"),
            Done(),
        ],
    ),
    "an error that another try would not mend": (
        [{"type": "error", "code": "image_too_large", "message": "Oh", "param": None}],
        [StreamError(kind="bad_request", message="Oh", code="image_too_large")],
    ),
    "an error event": (
        [{"type": "error", "code": "server_error", "message": "Oh", "param": None}],
        [StreamError(kind="server", message="Oh", code="server_error")],
    ),
    "an error event with an object": (
        [{"type": "error", "error": {"type": "invalid_request_error", "code": None, "message": "Oh"}}],
        [StreamError(kind="bad_request", message="Oh", code="invalid_request_error")],
    ),
    "begun": (
        [{"type": "response.created", "response": {"id": "x", "model": "m"}}, {"type": "ping"}, event("new.kind")],
        [Start(model="m", response_id="x")],
    ),
    "not JSON": (["<html>"], [Raw("unreadable", "<html>")]),
}


@pytest.mark.parametrize("case", STREAMS)
def test_streams(case: str) -> None:
    frames, expected = STREAMS[case]
    assert parts_of(CODEC, *frames) == expected


def test_a_document_that_is_still_being_made_is_no_answer() -> None:
    body = {"id": "x", "object": "response", "model": "m", "status": "in_progress", "output": [MESSAGE]}
    assert parts_of(CODEC, body, stream=False)[2:] == [
        StreamError(kind="server", message="The provider ended the response as 'in_progress'."),
        Finish(raw="in_progress", finish="other"),
        Done(),
    ]


def test_a_document() -> None:
    body = {"id": "x", "object": "response", "model": "m", "status": "completed", "output": [MESSAGE, CALL]}
    assert parts_of(CODEC, body, stream=False) == [
        Start(model="m", response_id="x"),
        Text("Hi"),
        ToolCallStart(index=1, id="c", name="read"),
        ToolCallEnd(index=1, arguments="{}"),
        *CALLED,
    ]
