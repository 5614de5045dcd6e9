"""Ollama: requests we make, and what recorded traffic does not show."""

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
from turnwright.providers.codecs.ollama import Ollama
from turnwright.schema.messages import Reasoning
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

CODEC = Ollama()


def test_a_request() -> None:
    quirks = Quirks(extra_body={"options": {"num_ctx": 8192}, "keep_alive": "5m"}, tool_images=True)
    assert request(CODEC, prompt_of(*conversation(), max_output_tokens=9, temperature=0.5), quirks) == {
        "model": "m",
        "stream": True,
        "options": {"num_predict": 9, "temperature": 0.5, "num_ctx": 8192},
        "keep_alive": "5m",
        "tools": [
            {"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": SCHEMA}},
            {"type": "function", "function": {"name": "shot", "description": "Looks.", "parameters": SCHEMA}},
        ],
        "messages": [
            {"role": "system", "content": "Be brief.\n\nHere."},
            {"role": "user", "content": "See", "images": ["QUJD"]},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {"id": "a", "function": {"name": "read", "arguments": {"path": "x"}}},
                    {"id": "b.2", "function": {"name": "shot", "arguments": {}}},
                ],
            },
            {"role": "tool", "content": "no such file", "tool_name": "read", "tool_call_id": "a"},
            {"role": "tool", "content": "done", "images": ["QUJD"], "tool_name": "shot", "tool_call_id": "b.2"},
            {"role": "system", "content": "Stop."},
        ],
    }


def test_images_of_tools_follow_where_a_result_cannot_hold_them() -> None:
    assert encoded(CODEC, RESULTS)[2] == {"role": "user", "content": SHOWN, "images": ["QUJD"]}


def test_the_runtime_as_a_marked_user() -> None:
    assert encoded(CODEC, STOP, Quirks(runtime_role="user")) == [{"role": "user", "content": MARKED_STOP}]


def test_thinking_goes_back_to_its_route_where_it_is_wanted() -> None:
    message, quirks = said(Reasoning(text="hm")), Quirks(reasoning_replay="always")
    assert encoded(CODEC, message, quirks)[0]["thinking"] == "hm"
    assert "thinking" not in encoded(CODEC, message, quirks, route="other")[0]
    assert "thinking" not in encoded(CODEC, message, PLAIN)[0]


def line(done: bool = False, **message: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": "", **message}, "done": done}


START = Start(model="m")
END = line(done=True) | {"done_reason": "stop", "prompt_eval_count": 5, "eval_count": 2}
COUNTED = UsagePart(usage=Usage(input=5, output=2), reported=Usage(input=5, output=2))
CALL = {"function": {"name": "read", "arguments": {"a": 1}}}

STREAMS: dict[str, tuple[list[dict[str, Any] | str], list[Part]]] = {
    "thinking, then text": (
        [line(thinking="hm"), line(content="Hi"), END],
        [START, ReasoningPart("hm"), Text("Hi"), Finish(raw="stop", finish="stop"), COUNTED, Done()],
    ),
    "calls are numbered over lines": (
        [
            line(tool_calls=[CALL]),
            line(tool_calls=[{"id": "i", "function": {"name": "read", "arguments": '{"b":2}'}}]),
            END,
        ],
        [
            START,
            ToolCallStart(index=0, name="read"),
            ToolCallArguments(fragment='{"a":1}', index=0),
            ToolCallEnd(index=0),
            ToolCallStart(index=1, id="i", name="read"),
            ToolCallArguments(fragment='{"b":2}', index=1, id="i"),
            ToolCallEnd(index=1, id="i"),
            Finish(raw="stop", finish="tool_calls"),
            COUNTED,
            Done(),
        ],
    ),
    "the answer of /api/generate": (
        [
            {"model": "m", "response": "Hi", "thinking": "hm", "done": False},
            {"model": "m", "response": "", "done": True},
        ],
        [START, ReasoningPart("hm"), Text("Hi"), Done()],
    ),
    "cut at the limit": (
        [line(done=True) | {"done_reason": "length"}],
        [START, Finish(raw="length", finish="length"), Done()],
    ),
    "an error in the stream": (
        [line(content="Hi"), {"error": "out of memory"}],
        [START, Text("Hi"), StreamError(kind="server", message="out of memory")],
    ),
    "not JSON": (["<html>"], [Raw("unreadable", "<html>")]),
}


@pytest.mark.parametrize("case", STREAMS)
def test_streams(case: str) -> None:
    frames, expected = STREAMS[case]
    assert parts_of(CODEC, *frames) == expected


def test_a_document_that_is_no_answer_is_whole_but_empty() -> None:
    assert parts_of(CODEC, {"status": "ok"}, stream=False) == [Done()]
