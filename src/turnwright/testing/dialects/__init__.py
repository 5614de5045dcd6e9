"""The five dialects from the other side: what a provider would send. For fakes; the codecs know nothing of it."""

from __future__ import annotations

from turnwright.providers.codec import Dialect
from turnwright.testing.dialects import anthropic, gemini, ollama, openai_chat, openai_responses
from turnwright.testing.dialects.said import Speaker

SPEAKERS: dict[Dialect, Speaker] = {
    "openai-chat": openai_chat.SPEAKER,
    "openai-responses": openai_responses.SPEAKER,
    "anthropic": anthropic.SPEAKER,
    "gemini": gemini.SPEAKER,
    "ollama": ollama.SPEAKER,
}
