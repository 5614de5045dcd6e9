"""Whatever a frame holds, no codec raises, and what it says can be assembled."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwright.providers.codec import Codec, Frame
from turnwright.providers.codecs.anthropic import Anthropic
from turnwright.providers.codecs.gemini import Gemini
from turnwright.providers.codecs.ollama import Ollama
from turnwright.providers.codecs.openai_chat import OpenAIChat
from turnwright.providers.codecs.openai_responses import OpenAIResponses
from turnwright.schema.parts import Part, StreamError

CODECS: list[Codec] = [OpenAIChat(), OpenAIResponses(), Anthropic(), Gemini(), Ollama()]

WORDS = """
id model choices delta message content reasoning reasoning_content reasoning_details refusal tool_calls index function
name arguments function_call finish_reason usage prompt_tokens completion_tokens total_tokens error code type text
thinking signature partial_json content_block stop_reason input output item response output_index status candidates
parts functionCall args thought thoughtSignature finishReason usageMetadata promptTokenCount done done_reason object
metadata raw summary call_id item_id content_index details reason cost x_groq prompt_tokens_details input_tokens
completion_tokens_details output_tokens incomplete_details promptFeedback blockReason eval_count
"""
KINDS = """
message_start content_block_start content_block_delta content_block_stop message_delta message_stop message error
text_delta input_json_delta thinking_delta signature_delta tool_use thinking text response.created
response.output_text.delta response.output_item.added response.output_item.done response.completed function_call
response.function_call_arguments.delta response.reasoning_text.delta reasoning response.failed stop tool_calls
"""

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 600)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(KINDS.split())
    | st.sampled_from(["{}", '{"error":{"message":"x"}}', "[DONE]"])
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS.split()), inner, max_size=6),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from(WORDS.split()), VALUES, max_size=6)
FRAMES = st.binary(max_size=30) | OBJECTS.map(lambda value: json.dumps(value).encode())


@pytest.mark.parametrize("codec", CODECS, ids=[codec.dialect for codec in CODECS])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "document"])
@settings(max_examples=40, deadline=None)
@given(frames=st.lists(FRAMES, max_size=5))
def test_garbage_never_raises(codec: Codec, stream: bool, frames: list[bytes]) -> None:
    state, parts = codec.begin(stream), list[Part]()
    for data in frames:
        before = state
        state, more = codec.step(before, Frame(data))
        again = codec.step(before, Frame(data))
        assert (state, more) == again or b"NaN" in data  # pure: the same frame in the same state says the same
        parts.extend(more)
    parts.extend(codec.end(state))
    for part in parts:
        assert isinstance(part, Part.__args__)


@pytest.mark.parametrize("codec", CODECS, ids=[codec.dialect for codec in CODECS])
@settings(max_examples=25, deadline=None)
@given(status=st.integers(300, 599), body=FRAMES)
def test_any_error_body_is_an_error(codec: Codec, status: int, body: bytes) -> None:
    error = codec.read_error(status, {}, body)
    assert isinstance(error, StreamError)
    assert error.status == status
    assert error.message
