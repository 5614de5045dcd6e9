"""Gemini: requests we make, and what recorded traffic does not show."""

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
from turnwright.providers.codecs.gemini import FOREIGN_CALL, Gemini
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

CODEC = Gemini()
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}


def test_paths() -> None:
    assert CODEC.path("m", True) == "/models/m:streamGenerateContent?alt=sse"
    assert CODEC.path("models/m", False) == "/models/m:generateContent"


def test_a_request() -> None:
    quirks = Quirks(extra_body={"generationConfig": {"thinkingConfig": {"includeThoughts": True}}})
    prompt = prompt_of(*conversation(), max_output_tokens=9, temperature=0.5)
    assert request(CODEC, prompt, quirks) == {
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "read", "description": "Reads.", "parametersJsonSchema": SCHEMA},
                    {"name": "shot", "description": "Looks.", "parametersJsonSchema": SCHEMA},
                ]
            }
        ],
        "systemInstruction": {"parts": [{"text": "Be brief.\n\nHere."}]},
        "generationConfig": {"maxOutputTokens": 9, "temperature": 0.5, "thinkingConfig": {"includeThoughts": True}},
        "contents": [
            {"role": "user", "parts": [{"text": "See"}, IMAGE]},
            {
                "role": "model",
                "parts": [
                    {"text": "I look."},
                    {"functionCall": {"name": "read", "args": {"path": "x"}}},
                    {"functionCall": {"name": "shot", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "read", "response": {"error": "no such file"}}},
                    {"functionResponse": {"name": "shot", "response": {"output": "done"}}},
                    {"text": SHOWN.replace("b.2", "b.2")},
                    IMAGE,
                ],
            },
            {"role": "user", "parts": [{"text": MARKED_STOP}]},
        ],
    }


def test_a_bare_request() -> None:
    assert request(CODEC, prompt_of(UserMessage(text="Hi"), tools=(), system=())) == {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}]
    }


def test_images_inside_results() -> None:
    (sent,) = encoded(CODEC, RESULTS, Quirks(tool_images=True))
    assert sent["parts"][1] == {"functionResponse": {"name": "shot", "response": {"output": "done"}, "parts": [IMAGE]}}


def test_signatures_go_back_beside_what_they_were_given_with() -> None:
    message = said(Reasoning(text="hm", signature="of the text"), signature="of the call")
    (own,) = encoded(CODEC, message)
    assert own["parts"] == [
        {"text": "I look.", "thoughtSignature": "of the text"},
        {"functionCall": {"name": "read", "args": {"path": "x"}}, "thoughtSignature": "of the call"},
        {"functionCall": {"name": "shot", "args": {}}},
    ]


def test_calls_of_another_route_say_so() -> None:
    (sent,) = encoded(CODEC, said(signature="s"), route="other")
    assert [part.get("thoughtSignature") for part in sent["parts"]] == [None, FOREIGN_CALL, None]


def test_nothing_said_is_nothing_sent() -> None:
    assert CODEC.encode_message(AssistantMessage(route="r"), "r", PLAIN) == b""


def test_the_runtime_is_marked_whatever_the_quirks_say() -> None:
    assert encoded(CODEC, STOP, Quirks(runtime_role="system")) == [{"role": "user", "parts": [{"text": MARKED_STOP}]}]


def chunk(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "m", "responseId": "x", **more}


def more(*pieces: dict[str, Any]) -> dict[str, Any]:
    """Of the arguments of a call that goes on."""
    return {"functionCall": {"partialArgs": list(pieces), "willContinue": True}}


START = Start(model="m", response_id="x")

STREAMS: dict[str, tuple[list[dict[str, Any] | str], list[Part]]] = {
    "usage grows with every chunk and is told once": (
        [
            chunk({"text": "H"}, usageMetadata={"promptTokenCount": 5, "thoughtsTokenCount": 3}),
            chunk({"text": "i"}, usageMetadata={"promptTokenCount": 5, "candidatesTokenCount": 1}),
            chunk(
                {"text": ""},
                finish="STOP",
                usageMetadata={"candidatesTokenCount": 2, "cachedContentTokenCount": 4, "toolUsePromptTokenCount": 10},
            ),
        ],
        [
            START,
            Text("H"),
            Text("i"),
            Finish(raw="STOP", finish="stop"),
            UsagePart(
                usage=Usage(input=15, output=5, cache_read=4, reasoning=3),
                reported=Usage(input=5, output=2, cache_read=4, reasoning=3),
            ),
        ],
    ),
    "a signature closes its thought": (
        [
            chunk({"text": "hm", "thought": True}),
            chunk({"text": "mm", "thought": True, "thoughtSignature": "s"}),
            chunk({"text": "Hi"}, {"text": "", "thoughtSignature": "t"}),
        ],
        [
            START,
            ReasoningPart("hm", 0),
            ReasoningPart("mm", 0, "s"),
            Text("Hi"),
            ReasoningPart(block=1, signature="t"),
        ],
    ),
    "a call whose arguments come in pieces": (
        [
            chunk({"functionCall": {"name": "write", "willContinue": True}, "thoughtSignature": "s"}),
            chunk(more({"jsonPath": "$.path", "stringValue": "a", "willContinue": True})),
            chunk(more({"jsonPath": "$.path", "stringValue": ".py"})),
            chunk(
                more({"jsonPath": "$.edits[0].line", "numberValue": 3}, {"jsonPath": "$['new']", "boolValue": False})
            ),
            chunk(more({"jsonPath": "$.edits[1].old", "nullValue": "NULL_VALUE"})),
            chunk({"functionCall": {}}),
            chunk({"functionCall": {"name": "ls", "args": {}}}, finish="STOP"),
        ],
        [
            START,
            ToolCallStart(index=0, name="write", signature="s"),
            ToolCallArguments(fragment="a", index=0),
            ToolCallArguments(fragment=".py", index=0),
            ToolCallEnd(index=0, arguments='{"path":"a.py","edits":[{"line":3},{"old":null}],"new":false}'),
            ToolCallStart(index=1, name="ls"),
            ToolCallArguments(fragment="{}", index=1),
            ToolCallEnd(index=1),
            Finish(raw="STOP", finish="tool_calls"),
        ],
    ),
    "pieces that belong nowhere stay pieces": (
        [
            chunk({"functionCall": {"name": "write", "partialArgs": [{"jsonPath": "$.a[7]", "stringValue": "x"}]}}),
            chunk({"functionCall": {"name": "write", "willContinue": True}}),
            chunk(more({"jsonPath": "a..b", "stringValue": "y"})),
            chunk({"functionCall": {"name": "ls"}}),
        ],
        [
            START,
            ToolCallStart(index=0, name="write"),
            ToolCallArguments(fragment="x", index=0),
            ToolCallEnd(index=0),
            ToolCallStart(index=1, name="write"),
            ToolCallArguments(fragment="y", index=1),
            ToolCallEnd(index=1),
            ToolCallStart(index=2, name="ls"),
            ToolCallEnd(index=2),
        ],
    ),
    "calls are numbered over chunks": (
        [
            chunk({"functionCall": {"name": "read", "args": {"a": 1}}, "thoughtSignature": "s"}),
            chunk({"functionCall": {"name": "read", "id": "i"}}, finish="STOP"),
        ],
        [
            START,
            ToolCallStart(index=0, name="read", signature="s"),
            ToolCallArguments(fragment='{"a":1}', index=0),
            ToolCallEnd(index=0),
            ToolCallStart(index=1, id="i", name="read"),
            ToolCallEnd(index=1, id="i"),
            Finish(raw="STOP", finish="tool_calls"),
        ],
    ),
    "a picture": (
        [chunk({"inlineData": {"mimeType": "image/png", "data": "QQ=="}})],
        [START, Raw("inlineData", '{"inlineData":{"mimeType":"image/png","data":"QQ=="}}')],
    ),
    "only the first candidate": (
        [{"candidates": [{"index": 1, "content": {"parts": [{"text": "two"}]}}], "responseId": "x"}],
        [Start(response_id="x")],
    ),
    "a call that the provider could not make out": (
        [{"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}],
        [Finish(raw="MALFORMED_FUNCTION_CALL", finish="other", is_broken_call=True)],
    ),
    "a blocked prompt": (
        [{"promptFeedback": {"blockReason": "SAFETY"}}],
        [Raw("promptFeedback", '{"blockReason":"SAFETY"}'), Finish(raw="", finish="content_filter")],
    ),
    "an error in the stream": (
        [{"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}],
        [StreamError(kind="overloaded", message="Overloaded", code="503")],
    ),
    "an error in an array": (
        ['[{"error":{"code":429,"message":"Slow","status":"RESOURCE_EXHAUSTED"}}]'],
        [StreamError(kind="rate_limit", message="Slow", code="429")],
    ),
    "not JSON": (["<html>"], [Raw("unreadable", "<html>")]),
}


@pytest.mark.parametrize("case", STREAMS)
def test_streams(case: str) -> None:
    frames, expected = STREAMS[case]
    assert parts_of(CODEC, *frames) == expected


def test_a_document() -> None:
    assert parts_of(CODEC, chunk({"text": "Hi"}, finish="MAX_TOKENS"), stream=False) == [
        START,
        Text("Hi"),
        Finish(raw="MAX_TOKENS", finish="length"),
        Done(),
    ]


def test_a_wrong_key_is_named_although_the_status_is_400() -> None:
    body = b'{"error":{"code":400,"message":"API key not valid.","details":[{"reason":"API_KEY_INVALID"}]}}'
    assert CODEC.read_error(400, {}, body) == StreamError(
        kind="auth", message="API key not valid.", status=400, code="API_KEY_INVALID"
    )
