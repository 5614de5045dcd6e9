"""Messages as hosts send them; each is a fixture for the words that recognise it."""

from __future__ import annotations

import pytest

from turnwright.providers.codec import Dialect
from turnwright.providers.decode import batches_of
from turnwright.providers.decoder import Decoder
from turnwright.providers.dialects import codec_of
from turnwright.providers.overflow import says_overflow, shows_overflow
from turnwright.schema.frames import Frame
from turnwright.schema.parts import Closed, StreamError, Usage
from turnwright.schema.verdicts import ErrorKind, FinishClass

OVERFLOWS = {
    "openai": "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens.",
    "openai-responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "anthropic": "prompt is too long: 213462 tokens > 200000 maximum",
    "anthropic-max": "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease it",
    "gemini": "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "xai": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "groq": "Please reduce the length of the messages or completion.",
    "cerebras": "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192",
    "mistral": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "openrouter": "This endpoint's maximum context length is 16385 tokens. However, you requested about 20000 tokens.",
    "llama.cpp": "the request exceeds the available context size, try increasing it",
    "lm-studio": "The number of tokens to keep from the initial prompt is greater than the context length.",
    "ollama-cloud": "prompt too long; exceeded max context length by 1119046 tokens (ref: 96164522)",
    "perplexity": "The total length of all messages is too long.",
    "bedrock": "Input is too long for requested model.",
    "moonshot": "Invalid request: Your request exceeded model token limit: 131072",
    "together": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193",
    "dashscope": "Range of input length should be [1, 129024]",
}

NOT_OVERFLOWS = {
    "groq-tpm": (
        "too_large",
        "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 8012, please reduce",
    ),
    "bedrock": ("bad_request", "ThrottlingException: Too many tokens, please wait before trying again."),
    "openai": ("rate_limit", "Rate limit reached: maximum context length is fine"),
    "key": ("auth", "Incorrect API key provided"),
    "model": ("not_found", "The model `x` does not exist"),
    "schema": ("bad_request", "Invalid schema for function 'read'"),
    "output": ("bad_request", "max_tokens is too large: 99999. This model supports at most 16384 completion tokens"),
}


@pytest.mark.parametrize("host", OVERFLOWS)
def test_overflow_is_recognised_by_its_words(host: str) -> None:
    assert says_overflow(StreamError(kind="bad_request", status=400, message=OVERFLOWS[host]))


@pytest.mark.parametrize("code", ["context_length_exceeded", "too_many_prompt_tokens", "exceed_context_size_error"])
def test_overflow_is_recognised_by_its_code(code: str) -> None:
    assert says_overflow(StreamError(kind="bad_request", message="", code=code))


def test_a_request_too_large_is_one() -> None:
    assert says_overflow(StreamError(kind="too_large", status=413, message="Request exceeds the maximum size"))


@pytest.mark.parametrize("case", NOT_OVERFLOWS)
def test_other_errors_are_none(case: str) -> None:
    kind, message = NOT_OVERFLOWS[case]
    known: ErrorKind = kind  # type: ignore[assignment]
    assert not says_overflow(StreamError(kind=known, message=message))


@pytest.mark.parametrize(
    ("usage", "window", "finish", "expected"),
    [
        (Usage(input=101, output=5), 100, "stop", True),
        (Usage(input=100, output=5), 100, "stop", False),
        (Usage(input=99, output=0), 100, "length", True),
        (Usage(input=99, output=1), 100, "length", False),
        (Usage(input=50, output=0), 100, "length", False),
        (Usage(input=101), None, None, False),
        (Usage(output=5), 100, None, False),
        (None, 100, None, False),
    ],
)
def test_overflow_shows_in_the_account(
    usage: Usage | None, window: int | None, finish: FinishClass | None, expected: bool
) -> None:
    assert shows_overflow(usage, window, finish) is expected


TOO_LONG = b'{"error":{"message":"prompt is too long: 213462 tokens > 200000 maximum","type":"invalid_request_error"}}'


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"])
@pytest.mark.parametrize(
    ("status", "body", "expected"), [(400, TOO_LONG, True), (200, TOO_LONG, True), (400, b"", False)]
)
def test_the_end_of_an_attempt_says_that_it_overflowed(
    dialect: Dialect, status: int, body: bytes, expected: bool
) -> None:
    headers = {"content-type": "application/json"}
    *_, last = batches_of(codec_of(dialect), [body], status=status, headers=headers, asked=None)
    assert isinstance(last[-1], Closed)
    assert last[-1].overflow is expected


@pytest.mark.parametrize(("window", "expected"), [(100, True), (1_000, False), (None, False)])
def test_an_account_in_pieces_is_held_against_the_window(window: int | None, expected: bool) -> None:
    decoder = Decoder(codec_of("anthropic"))
    for data in (
        b'{"type":"message_start","message":{"id":"m","usage":{"input_tokens":150,"output_tokens":1}}}',
        b'{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}',
    ):
        decoder.progress(decoder.feed([Frame(data=data)], "sse"))
    assert decoder.overflowed(window) is expected
