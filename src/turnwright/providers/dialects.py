"""Codecs by the name of their dialect, each loaded when it is first wanted."""

from __future__ import annotations

from typing import assert_never, get_args

from turnwright.providers.codec import Codec, Dialect

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)


def codec_of(dialect: Dialect) -> Codec:
    match dialect:
        case "openai-chat":
            from turnwright.providers.codecs.openai_chat import OpenAIChat

            return OpenAIChat()
        case "openai-responses":
            from turnwright.providers.codecs.openai_responses import OpenAIResponses

            return OpenAIResponses()
        case "anthropic":
            from turnwright.providers.codecs.anthropic import Anthropic

            return Anthropic()
        case "gemini":
            from turnwright.providers.codecs.gemini import Gemini

            return Gemini()
        case "ollama":
            from turnwright.providers.codecs.ollama import Ollama

            return Ollama()
        case _:
            assert_never(dialect)
