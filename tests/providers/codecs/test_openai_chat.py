"""What only recorded traffic does not show: requests we make, odd hosts, and frames cut or broken."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from turnwright.providers.codec import Frame, Quirks
from turnwright.providers.codecs.openai_chat import OpenAIChat
from turnwright.schema.messages import (
    AssistantMessage,
    Image,
    Message,
    Reasoning,
    RuntimeMessage,
    ToolCall,
    ToolResult,
    ToolResults,
    UserMessage,
)
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
from turnwright.schema.prompt import Prompt, Section, ToolSpec

CODEC = OpenAIChat()
PLAIN = Quirks()
PICTURE = Image(media_type="image/png", data="QUJD")
CALL = ToolCall(id="c1", name="read", arguments='{"path":"a"}', signature="sig")
SAID = AssistantMessage(
    text="I look.",
    reasoning=(Reasoning(text="hm", opaque='[{"type":"reasoning.text","text":"hm"}]'),),
    calls=(CALL,),
    route="r",
)


def parts_of(*frames: dict[str, Any] | str, stream: bool = True) -> list[Part]:
    state, parts = CODEC.begin(stream), list[Part]()
    for frame in frames:
        data = frame if isinstance(frame, str) else json.dumps(frame)
        state, more = CODEC.step(state, Frame(data.encode()))
        parts.extend(more)
    return [*parts, *CODEC.end(state)]


def delta(**words: Any) -> dict[str, Any]:
    return {"id": "x", "model": "m", "choices": [{"index": 0, "delta": words, "finish_reason": None}]}


START = Start(model="m", response_id="x")

STREAMS: dict[str, tuple[list[dict[str, Any] | str], list[Part]]] = {
    "a plain stream": (
        [delta(role="assistant", content=""), delta(content="Hi"), delta(content="!"), "[DONE]"],
        [START, Text("Hi"), Text("!"), Done()],
    ),
    "the end mark with a space": (["[DONE] "], [Done()]),
    "only the first choice": (
        [{"id": "x", "model": "m", "choices": [{"index": 1, "delta": {"content": "two"}}]}],
        [START],
    ),
    "text without a model's name stays text": ([{"choices": [{"delta": {"content": "Hi"}}]}], [Text("Hi")]),
    "reasoning under any of its names": (
        [
            delta(reasoning_content="a"),
            delta(reasoning="b"),
            delta(reasoning="c", reasoning_content="c"),
            delta(reasoning_text="d"),
        ],
        [START, ReasoningPart("a"), ReasoningPart("b"), ReasoningPart("c"), ReasoningPart("d")],
    ),
    "reasoning details are joined at the end": (
        [
            delta(reasoning_details=[{"type": "reasoning.text", "text": "one ", "signature": None, "index": 0}]),
            delta(reasoning_details=[{"type": "reasoning.text", "text": "two", "signature": "s", "index": 0}]),
            delta(reasoning_details=[{"type": "reasoning.encrypted", "data": "e", "id": "i", "index": 1}]),
        ],
        [
            START,
            ReasoningPart("one "),
            ReasoningPart("two"),
            ReasoningPart(
                opaque='[{"type":"reasoning.text","text":"one two","signature":"s","index":0},'
                '{"type":"reasoning.encrypted","data":"e","id":"i","index":1}]'
            ),
        ],
    ),
    "a call in pieces": (
        [
            delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "read", "arguments": ""}}]),
            delta(tool_calls=[{"index": 0, "function": {"arguments": "{}"}}]),
        ],
        [START, ToolCallStart(index=0, id="c", name="read"), ToolCallArguments(fragment="{}", index=0)],
    ),
    "a call with arguments as an object": (
        [delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "read", "arguments": {"a": 1}}}])],
        [START, ToolCallStart(index=0, id="c", name="read"), ToolCallArguments(fragment='{"a":1}', index=0, id="c")],
    ),
    "a thought signature on a call": (
        [
            delta(
                tool_calls=[
                    {"id": "c", "function": {"name": "f"}, "extra_content": {"google": {"thought_signature": "s"}}}
                ]
            )
        ],
        [START, ToolCallStart(id="c", name="f", signature="s")],
    ),
    "an error in the stream": (
        [{"error": {"message": "busy", "code": "429", "type": "x"}}],
        [StreamError(kind="rate_limit", message="busy", code="429")],
    ),
    "an error beside a choice that only says that it failed": (
        [
            delta(content="half"),
            {
                "error": {"code": "rate_limit_exceeded", "message": "Provider gone"},
                "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
            },
        ],
        [
            START,
            Text("half"),
            StreamError(kind="rate_limit", message="Provider gone", code="rate_limit_exceeded"),
            Finish(raw="error", finish="error"),
        ],
    ),
    "an error event without an object": (
        [{"type": "error", "message": "boom", "code": 503}],
        [StreamError(kind="overloaded", message="boom", code="503")],
    ),
    "an error as text with its type": (
        [{"error": "busy", "error_type": "overloaded"}],
        [StreamError(kind="overloaded", message="busy", code="overloaded")],
    ),
    "an error as text": ([{"error": "busy"}], [StreamError(kind="server", message="busy")]),
    "vLLM's error": (
        [{"object": "error", "message": "too long", "type": "BadRequestError", "code": 400}],
        [StreamError(kind="bad_request", message="too long", code="400")],
    ),
    "a router's error, wrapped twice": (
        [
            {
                "error": {
                    "message": "Provider returned error",
                    "code": 502,
                    "metadata": {
                        "raw": json.dumps(
                            {
                                "error": {
                                    "message": "Upstream",
                                    "metadata": {"raw": '{"error":{"type":"overloaded_error","message":"Overloaded"}}'},
                                }
                            }
                        )
                    },
                }
            }
        ],
        [StreamError(kind="overloaded", message="Overloaded", code="overloaded_error")],
    ),
    "a choice that failed": (
        [
            {
                "id": "x",
                "model": "m",
                "choices": [{"delta": {}, "finish_reason": "error", "error": {"code": 503, "message": "gone"}}],
            }
        ],
        [START, StreamError(kind="overloaded", message="gone", code="503"), Finish(raw="error", finish="error")],
    ),
    "an end by error without words": (
        [{"id": "x", "model": "m", "choices": [{"delta": {}, "finish_reason": "error"}]}],
        [
            START,
            Finish(raw="error", finish="error"),
            StreamError(kind="server", message="The provider ended the reply with 'error'.", code="error"),
        ],
    ),
    "a request that the server gave up": (
        [{"choices": [{"delta": {}, "finish_reason": "abort"}]}],
        [
            Finish(raw="abort", finish="error"),
            StreamError(kind="server", message="The provider ended the reply with 'abort'.", code="abort"),
        ],
    ),
    "a call that the provider could not make out": (
        [{"choices": [{"delta": {}, "finish_reason": "function_call_filter: MALFORMED_FUNCTION_CALL"}]}],
        [Finish(raw="function_call_filter: MALFORMED_FUNCTION_CALL", finish="other", is_broken_call=True)],
    ),
    "a filter's reason from the dialect behind it": (
        [{"choices": [{"delta": {}, "finish_reason": "SAFETY"}]}],
        [Finish(raw="SAFETY", finish="content_filter")],
    ),
    "usage inside the choice": (
        [
            {
                "choices": [
                    {
                        "delta": {"content": "Hi"},
                        "finish_reason": None,
                        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
                    }
                ]
            }
        ],
        [Text("Hi"), UsagePart(usage=Usage(input=3, output=2), reported=Usage(input=3, output=2))],
    ),
    "not JSON": (["<html>"], [Raw("unreadable", "<html>")]),
    "JSON of another kind": (["[1,2]"], [Raw("foreign", "[1,2]")]),
    "nested beyond reason": (
        ['{"choices":' + "[" * 100_000],
        [Raw("unreadable", ('{"choices":' + "[" * 100_000)[:2000])],
    ),
    "usage at the end": (
        [
            {
                "id": "x",
                "model": "m",
                "choices": [],
                "usage": {
                    "prompt_tokens": 10,
                    "completion_tokens": 4,
                    "total_tokens": 17,
                    "prompt_tokens_details": {"cached_tokens": 6},
                    "completion_tokens_details": {"reasoning_tokens": 3},
                    "cost": 0.25,
                },
            }
        ],
        [
            START,
            UsagePart(
                usage=Usage(input=10, output=7, cache_read=6, reasoning=3),
                reported=Usage(input=10, output=4, cache_read=6, reasoning=3),
                cost_usd=0.25,
            ),
        ],
    ),
}


@pytest.mark.parametrize("case", STREAMS)
def test_streams(case: str) -> None:
    frames, expected = STREAMS[case]
    assert parts_of(*frames) == expected


def test_a_document_is_whole_when_it_parsed() -> None:
    body = {
        "id": "x",
        "model": "m",
        "choices": [
            {
                "message": {
                    "content": [
                        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                        {"type": "text", "text": "Hi"},
                    ],
                    "tool_calls": [{"id": "c", "function": {"name": "read", "arguments": "{}"}}],
                },
                "finish_reason": "tool_calls",
            }
        ],
    }
    assert parts_of(body, stream=False) == [
        START,
        ReasoningPart("hm"),
        Text("Hi"),
        ToolCallStart(index=0, id="c", name="read"),
        ToolCallArguments(fragment="{}", index=0, id="c"),
        ToolCallEnd(index=0, id="c"),
        Finish(raw="tool_calls", finish="tool_calls"),
        Done(),
    ]


TOOLS = (ToolSpec(name="read", description="Reads.", parameters={"type": "object"}),)
PROMPT = Prompt(lineage="l", system=(Section("role", "Be brief."), Section("env", "Here.")), messages=(), tools=TOOLS)


def test_a_request_keeps_what_grows_at_its_end() -> None:
    first = CODEC.encode_message(UserMessage(text="Hi"), "r", PLAIN)
    second = CODEC.encode_message(AssistantMessage(text="Yes?", route="r"), "r", PLAIN)
    one = CODEC.encode_request(PROMPT, "m", first, True, PLAIN)
    two = CODEC.encode_request(PROMPT, "m", first + b"," + second, True, PLAIN)
    assert two.startswith(one[:-2])
    assert json.loads(two) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {"name": "read", "description": "Reads.", "parameters": {"type": "object"}},
            }
        ],
        "messages": [
            {"role": "system", "content": "Be brief.\n\nHere."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Yes?"},
        ],
    }


def test_a_request_with_every_quirk() -> None:
    prompt = Prompt(lineage="l", system=(), messages=(), tools=TOOLS, max_output_tokens=9, temperature=0.5)
    quirks = Quirks(
        include_usage=False,
        max_tokens_key="max_completion_tokens",
        temperature=False,
        parallel_tool_calls=False,
        extra_body={"seed": 7},
    )
    sent = json.loads(CODEC.encode_request(prompt, "m", b"", False, quirks))
    assert {key: sent[key] for key in sent if key != "tools"} == {
        "model": "m",
        "stream": False,
        "max_completion_tokens": 9,
        "parallel_tool_calls": False,
        "seed": 7,
        "messages": [],
    }


def encoded(message: Message, quirks: Quirks = PLAIN, route: str = "r") -> Any:
    return json.loads(b"[" + CODEC.encode_message(message, route, quirks) + b"]")


SAID_PLAINLY = {
    "role": "assistant",
    "content": "I look.",
    "tool_calls": [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "read", "arguments": '{"path":"a"}'},
            "extra_content": {"google": {"thought_signature": "sig"}},
        }
    ],
}


@pytest.mark.parametrize(
    ("quirks", "more"),
    [
        (PLAIN, {}),
        (Quirks(reasoning_replay="with_calls"), {"reasoning_content": "hm"}),
        (Quirks(reasoning_replay="always", reasoning_field="reasoning"), {"reasoning": "hm"}),
        (
            Quirks(reasoning_replay="with_calls", reasoning_field="reasoning_details"),
            {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        ),
    ],
)
def test_reasoning_goes_back_as_the_host_wants_it(quirks: Quirks, more: dict[str, Any]) -> None:
    assert encoded(SAID, quirks) == [SAID_PLAINLY | more]


def test_reasoning_and_signatures_never_go_to_another_route() -> None:
    sent = CODEC.encode_message(SAID, "other", Quirks(reasoning_replay="always")).decode()
    assert "hm" not in sent
    assert "sig" not in sent


def test_reasoning_of_another_dialect_is_not_sent() -> None:
    said = AssistantMessage(text="x", reasoning=(Reasoning(opaque="not JSON"), Reasoning(opaque="{}")), route="r")
    quirks = Quirks(reasoning_replay="always", reasoning_field="reasoning_details")
    assert encoded(said, quirks) == [{"role": "assistant", "content": "x"}]


MESSAGES: list[tuple[Message, Quirks, Sequence[dict[str, Any]]]] = [
    (UserMessage(text="Hi"), PLAIN, [{"role": "user", "content": "Hi"}]),
    (
        UserMessage(text="See", images=(PICTURE,)),
        PLAIN,
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "See"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
                ],
            }
        ],
    ),
    (RuntimeMessage(text="Stop.", code="wrap-up"), PLAIN, [{"role": "system", "content": "Stop."}]),
    (
        RuntimeMessage(text="Stop.", code="wrap-up"),
        Quirks(runtime_role="user"),
        [
            {
                "role": "user",
                "content": '<runtime-message code="wrap-up" from="turnwright, not the user">\n'
                "Stop.\n</runtime-message>",
            }
        ],
    ),
    (AssistantMessage(), PLAIN, [{"role": "assistant", "content": ""}]),
    (
        ToolResults(results=(ToolResult(call_id="a", name="read", output="x", images=(PICTURE,)),)),
        Quirks(tool_images=True),
        [
            {
                "role": "tool",
                "tool_call_id": "a",
                "content": [
                    {"type": "text", "text": "x"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
                ],
            }
        ],
    ),
]


@pytest.mark.parametrize(("message", "quirks", "expected"), MESSAGES, ids=range(len(MESSAGES)))
def test_messages(message: Message, quirks: Quirks, expected: list[dict[str, Any]]) -> None:
    assert encoded(message, quirks) == expected


def test_ids_of_calls_in_the_shape_that_mistral_takes() -> None:
    quirks = Quirks(call_ids="alnum9")
    (said,) = encoded(AssistantMessage(calls=(CALL, ToolCall(id="abcDEF123", name="read", arguments="{}"))), quirks)
    results = [ToolResult(call_id=call_id, name="read", output="") for call_id in ("c1", "abcDEF123")]
    answered = encoded(ToolResults(results=tuple(results)), quirks)
    ids = [call["id"] for call in said["tool_calls"]]
    assert ids == [one["tool_call_id"] for one in answered]
    assert ids[1] == "abcDEF123"
    assert len(ids[0]) == 9


def test_images_of_tools_follow_all_results_under_the_runtime_name() -> None:
    results = ToolResults(
        results=(
            ToolResult(call_id="a", name="shot", output="x", images=(PICTURE,)),
            ToolResult(call_id="b", name="read", output="y"),
        )
    )
    sent = encoded(results)
    assert [one["role"] for one in sent] == ["tool", "tool", "user"]
    assert "not the user" in sent[2]["content"][0]["text"]


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (
            401,
            '{"error":{"message":"Bad key","code":"invalid_api_key"}}',
            StreamError(kind="auth", message="Bad key", status=401, code="invalid_api_key"),
        ),
        (
            429,
            '{"error":{"message":"Quota","code":"insufficient_quota"}}',
            StreamError(kind="rate_limit", message="Quota", status=429, code="insufficient_quota"),
        ),
        (
            400,
            '{"code":"odd","error":"Words"}',
            StreamError(kind="bad_request", message="Words", status=400, code="odd"),
        ),
        (422, '{"detail":[{"msg":"no"}]}', StreamError(kind="bad_request", message='[{"msg":"no"}]', status=422)),
        (
            403,
            '{"success":false,"errors":[{"code":10000,"message":"No."}],"result":null}',
            StreamError(kind="permission", message="No.", status=403, code="10000"),
        ),
        (400, '{"Message":"Shape."}', StreamError(kind="bad_request", message="Shape.", status=400)),
        (400, '{"error":[{"message":"One."}]}', StreamError(kind="bad_request", message="One.", status=400)),
        (500, "", StreamError(kind="server", message="HTTP status 500", status=500)),
        (503, "<html>", StreamError(kind="overloaded", message="<html>", status=503)),
        (529, "[]", StreamError(kind="overloaded", message="[]", status=529)),
    ],
)
def test_errors_by_status(status: int, body: str, expected: StreamError) -> None:
    assert CODEC.read_error(status, {}, body.encode()) == expected
