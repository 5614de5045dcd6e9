"""What can be told of a request without parsing it: its dialect and whether it asks for a stream."""

from __future__ import annotations

import re

from turnwright.providers.codec import Dialect

_STREAM = re.compile(rb'"stream"\s*:\s*true')
_NO_STREAM = re.compile(rb'"stream"\s*:\s*false')
_PATHS: tuple[tuple[str, Dialect], ...] = (
    ("/chat/completions", "openai-chat"),
    ("/responses", "openai-responses"),
    ("/messages", "anthropic"),
    ("/api/chat", "ollama"),
    (":streamGenerateContent", "gemini"),
    (":generateContent", "gemini"),
)
_HEAD_BYTES = 4096
_TAIL_BYTES = 512


def dialect_of(path: str) -> Dialect | None:
    plain = path.partition("?")[0]
    return next((dialect for ending, dialect in _PATHS if plain.endswith(ending)), None)


def asks_for_stream(path: str, body: bytes | bytearray, start: int = 0, end: int | None = None) -> bool:
    """Looks at either end of the body, where every client has the field; between them is only history."""
    dialect = dialect_of(path)
    if dialect == "gemini":
        return ":streamGenerateContent" in path
    end = len(body) if end is None else end
    places = ((start, min(start + _HEAD_BYTES, end)), (max(start, end - _TAIL_BYTES), end))
    if dialect == "ollama":  # streams unless told otherwise
        return not any(_NO_STREAM.search(body, *place) for place in places)
    return any(_STREAM.search(body, *place) for place in places)
