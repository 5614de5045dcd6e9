"""Small readings of loose JSON that several dialects share. Hosts put null, numbers and lists where text belongs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from turnwright.schema.messages import Image, RuntimeMessage
from turnwright.schema.parts import Usage
from turnwright.schema.prompt import Section


def text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def count_of(value: object) -> int | None:
    """A number of tokens, or None where there is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    return int(value) if value >= 0 else None


def json_text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def system_text(sections: Sequence[Section]) -> str:
    return "\n\n".join(section.text for section in sections if section.text)


def data_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{image.data}"


def marked(message: RuntimeMessage) -> str:
    """Words of the runtime where a dialect has no voice for them but the user's: the mark says whose they are."""
    return (
        f'<runtime-message code="{message.code}" from="turnwright, not the user">\n{message.text}\n</runtime-message>'
    )


def usage_of(reported: Usage, total: int | None = None) -> Usage:
    """From an account where the input includes its cached share to ours, where the output also includes reasoning.

    A share cannot exceed its whole: where it does, or where the total says so, the provider counts it apart.
    """
    read, thought = reported.cache_read or 0, reported.reasoning or 0
    input_, output = reported.input, reported.output
    if input_ is not None and read > input_:
        input_ += read + (reported.cache_write or 0)
    if output is not None and thought and (thought > output or total == (input_ or 0) + output + thought):
        output += thought
    return msgspec.structs.replace(reported, input=input_, output=output)


def lists_of_objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; nothing where it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def merged(body: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """`extra` on top of `body`; objects that both have are joined, so that one option does not take the others."""
    both = {key: {**body[key], **extra[key]} for key in body.keys() & extra.keys() if _objects(body[key], extra[key])}
    return {**body, **extra, **both}


def _objects(*values: object) -> bool:
    return all(isinstance(value, dict) for value in values)
