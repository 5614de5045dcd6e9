"""A server's result as that of any tool: text for the model, images as parts, all of it within bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from turnwright.schema.messages import Image
from turnwright.schema.tools import Detail, ToolOutcome

if TYPE_CHECKING:
    from mcp_types import CallToolResult

IMAGES_MAX = 8
IMAGE_CHARS_MAX = 7 * 1024 * 1024
"""Of base64: 5 MiB of picture, as with images that are read from files."""
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def outcome_of(result: CallToolResult, server: str) -> ToolOutcome:
    texts: list[str] = []
    images: list[Image] = []
    for block in result.content:
        said = _said(block, images)
        if said:
            texts.append(said)
    if not texts and not images and result.structured_content is not None:
        texts.append(msgspec.json.encode(result.structured_content, enc_hook=str).decode())
    detail: Detail = {"mcp_server": server}
    return ToolOutcome(
        output="\n\n".join(texts),
        outcome="failed" if result.is_error else "ok",
        images=tuple(images),
        detail=detail,
    )


def _said(block: Any, images: list[Image]) -> str:
    """Text of a block; an image goes to `images`, if there is room."""
    match block.type:
        case "text":
            return str(block.text)
        case "image":
            return _pictured(block, images)
        case "audio":
            return f"[audio, {block.mime_type}: cannot be shown]"
        case "resource_link":
            return f"[a resource: {block.name}, {block.uri}]"
        case "resource":
            held = block.resource
            text = getattr(held, "text", None)
            if text is None:
                return f"[the resource {held.uri}, {held.mime_type or 'no type'}: cannot be shown]"
            return f"[the resource {held.uri}]\n{text}"
        case other:
            return f"[{other}: cannot be shown]"


def _pictured(block: Any, images: list[Image]) -> str:
    if block.mime_type not in IMAGE_TYPES:
        return f"[an image, {block.mime_type}: cannot be shown]"
    if len(block.data) > IMAGE_CHARS_MAX:
        return f"[an image of {len(block.data) * 3 // 4:,} bytes: too large to be shown]"
    if len(images) == IMAGES_MAX:
        return "[one more image: no more are shown]"
    images.append(Image(media_type=block.mime_type, data=block.data))
    return ""
