"""Did the conversation outgrow the model's window (P17)? Hosts say so in words of their own, some do not say so.

Words are looked for as plain pieces of text: they come from outside, and no pattern may be slow on them.
"""

from __future__ import annotations

from turnwright.schema.parts import StreamError, Usage
from turnwright.schema.verdicts import FinishClass

THROTTLES = (
    "rate limit",
    "rate_limit",
    "per minute",
    "per day",
    "per hour",
    "per second",
    "(tpm)",
    "(tpd)",
    "throttl",
    "too many requests",
    "quota",
    "please wait",
    "try again in",
)
"""Speed limits are counted in tokens too, and no smaller conversation would help against them."""

CODES = frozenset(
    {
        "context_length_exceeded",
        "context_window_exceeded",
        "exceed_context_size_error",
        "model_context_window_exceeded",
        "request_too_large",
        "string_above_max_length",
        "too_many_prompt_tokens",
    }
)

WORDS: tuple[tuple[str, ...], ...] = (
    ("maximum context length",),  # OpenAI, DeepSeek, OpenRouter, Mistral, vLLM, Fireworks
    ("max context length",),  # Ollama's cloud
    ("exceeds the context window",),  # OpenAI Responses
    ("exceeds the available context size",),  # llama.cpp
    ("exceed context limit",),  # Anthropic, with max_tokens
    ("prompt is too long",),  # Anthropic, Fireworks
    ("prompt too long",),
    ("input is too long",),  # Bedrock
    ("too many input tokens",),
    ("total length of all messages is too long",),  # Perplexity
    ("token count", "exceeds the maximum number of tokens"),  # Gemini
    ("token count", "exceeds the limit"),  # Copilot
    ("maximum prompt length is",),  # xAI
    ("reduce the length of the messages",),  # Groq, Cerebras
    ("reduce the length of the input",),
    ("exceeded model token limit",),  # Moonshot
    ("context window exceeds limit",),  # MiniMax
    ("prompt exceeds max length",),  # Z.ai
    ("range of input length should be",),  # DashScope
    ("greater than the context length",),  # LM Studio
    ("context the overflows",),  # LM Studio, as it spells it
    ("context length exceeded",),
    ("context_length_exceeded",),
    ("input validation error", "max_new_tokens"),  # Together, text-generation-inference
    ("number of tokens in the prompt cannot exceed",),  # Cohere
    ("input length", "exceeds", "context"),
    ("context size has been exceeded",),
)


def says_overflow(error: StreamError) -> bool:
    """By what the provider says: a speed limit first, since it speaks of tokens as well."""
    said = error.message.lower()
    if error.kind in ("rate_limit", "auth", "billing") or any(word in said for word in THROTTLES):
        return False
    if error.code.lower() in CODES or error.kind == "too_large":
        return True
    return any(all(piece in said for piece in pieces) for pieces in WORDS)


def shows_overflow(usage: Usage | None, window: int | None, finish: FinishClass | None) -> bool:
    """By the account, for hosts that cut the conversation in silence, or leave no room for an answer."""
    if usage is None or usage.input is None or window is None:
        return False
    full = usage.input * 100 >= window * 99
    return usage.input > window or (full and finish == "length" and not usage.output)
