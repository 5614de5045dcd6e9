"""Whatever a frame holds, no codec raises, and what it says can be assembled."""

from __future__ import annotations

import json

import pytest
from fuzz_targets import OBJECTS
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
