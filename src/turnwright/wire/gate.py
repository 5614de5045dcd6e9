"""The content gate (P4): by status, Content-Type and first bytes, how a response is to be read, or why not. Pure."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

Framing: TypeAlias = Literal["sse", "ndjson", "json-array"]
"""How a stream is cut into frames."""

Reading: TypeAlias = Literal["sse", "ndjson", "json-array", "json"]
"""How a body is read; `json` is one document."""

SNIFFED_BYTES_MAX = 64
"""So many bytes after the leading blanks are enough to decide; fewer only while they could still become SSE."""

_BLANKS = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_SSE_LINE = re.compile(rb"(?:data|event|id|retry)(?:[:\r\n]|\Z)|:")
_ANY_FIELD = re.compile(rb"(?:data|event|id|retry)[\r\n]|[A-Za-z][A-Za-z0-9_-]{0,40}(?::|\Z)|:")
"""In what says it is SSE, any field may come first."""


class Refused(msgspec.Struct, frozen=True):
    """Not an answer."""

    how: Literal["http_error", "interstitial", "non_json"]
    detail: str


def accept(streaming: bool) -> tuple[tuple[str, str], ...]:
    """What a request asks for. Streams come as they are, for a compressed one arrives in lumps; documents may be
    compressed in the ways that the standard library reads."""
    if streaming:
        return (("Accept", "text/event-stream"), ("Accept-Encoding", "identity"))
    return (("Accept", "application/json; charset=utf-8"), ("Accept-Encoding", "gzip, deflate"))


def gate(
    status: int, content_type: str, first: bytes, asked: Framing | None, *, ended: bool
) -> Reading | Refused | None:
    """None: more bytes are needed. `first` is the body so far, `asked` the framing of the stream that was asked for,
    None where a document was; `ended` says that no more will come."""
    if not 200 <= status < 300:
        return Refused("http_error", f"HTTP status {status}")
    media = content_type.partition(";")[0].strip().lower()
    if media in ("text/html", "application/xhtml+xml"):
        return Refused("interstitial", f"a page ({media}) where an answer belongs")
    if not ended and _BOM.startswith(first):
        return None
    start = first.removeprefix(_BOM).lstrip(_BLANKS)
    if not start:
        if not ended:
            return None
        return Refused("non_json", "the body holds only blanks" if first else "the body is empty")
    return _by_first_bytes(media, start, asked, ended=ended)


def _by_first_bytes(media: str, start: bytes, asked: Framing | None, *, ended: bool) -> Reading | Refused | None:
    if start[:1] == b"<":
        if not ended and len(start) < 5:
            return None
        if start[:5].lower() == b"<?xml":
            return Refused("non_json", "XML where JSON or SSE belongs")
        return Refused("interstitial", "a page (HTML) where an answer belongs")
    if start[:1] in (b"{", b"["):
        return _json_kind(media, start[:1], asked)
    field = _ANY_FIELD if media == "text/event-stream" else _SSE_LINE
    found = field.match(start)
    if found and (ended or found[0][-1:] in b":\r\n"):
        return "sse"
    if not ended and len(start) < SNIFFED_BYTES_MAX and _may_become_a_field(start):
        return None
    named = f" ({media})" if media else ""
    return Refused("non_json", f"neither JSON nor SSE{named}")


def _json_kind(media: str, bracket: bytes, asked: Framing | None) -> Reading:
    if bracket == b"[":
        return "json-array" if asked else "json"
    if media in ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"):
        return "ndjson"
    return "ndjson" if asked == "ndjson" and media != "application/json" else "json"


def _may_become_a_field(start: bytes) -> bool:
    return re.fullmatch(rb"[A-Za-z][A-Za-z0-9_-]{0,40}", start) is not None
