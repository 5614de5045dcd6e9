"""What an attempt looked like on the wire, with arrival times: kept, written without secrets, and read again.

A cassette is NDJSON. The first line holds `cassette` (the version), `labels`, what framing was `asked` for and the
`request`; the second the response's `status` and `headers`; then one line for each arrival of bytes, as `text` or,
where that is not UTF-8, `base64`; the last says how it `ended`. Lines but the first carry `at_ms` since the request.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from turnwright.schema.errors import InputError
from turnwright.schema.masking import masked, masked_header
from turnwright.schema.verdicts import StallReason
from turnwright.wire.connection import Head
from turnwright.wire.content_coding import CodingError, inflater
from turnwright.wire.exchange import Ended
from turnwright.wire.gate import Framing
from turnwright.wire.http import Request

VERSION = 1
KEPT_BYTES_MAX = 16 * 1024 * 1024
_T = TypeVar("_T")
_SECRET_PARAMETER = re.compile(r"(?i)([?&](?:key|api[-_]?key|access_token|token)=)([^&#]+)")


class Chunk(msgspec.Struct, frozen=True, gc=False):
    at_ms: float
    data: bytes


class Cassette(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange. Header names are lower case in the response and as sent in the request."""

    request: Request
    asked: Framing | None = None
    labels: dict[str, str] = {}
    """Whatever names the attempt: route, dialect, model, verdict."""
    head_ms: float = 0.0
    head: Head | None = None
    chunks: tuple[Chunk, ...] = ()
    ended_ms: float = 0.0
    how: str = ""
    """As in Ended; empty where we hung up before the end."""
    stall: StallReason | None = None
    detail: str = ""
    dropped_bytes: int = 0
    """What came beyond the limit and was not kept."""


class Recording:
    """A recorder for one exchange (`wire.exchange.Recorder`). Keeps the bytes that came, up to a limit."""

    def __init__(self, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._max = kept_bytes_max
        self._request: Request | None = None
        self._asked: Framing | None = None
        self._began_s = self._head_s = self._ended_s = 0.0
        self._head: Head | None = None
        self._ended: Ended | None = None
        self._chunks: list[tuple[float, bytes]] = []
        self._kept_bytes = 0
        self._dropped_bytes = 0

    def sent(self, request: Request, asked: Framing | None, at_s: float) -> None:
        self._request, self._asked, self._began_s = request, asked, at_s

    def head(self, head: Head, at_s: float) -> None:
        self._head, self._head_s = head, at_s

    def chunk(self, data: bytes, at_s: float) -> None:
        self._kept_bytes += len(data)
        if self._kept_bytes > self._max:
            self._dropped_bytes += len(data)
            self._kept_bytes -= len(data)
        else:
            self._chunks.append((at_s, data))

    def ended(self, ended: Ended, at_s: float) -> None:
        self._ended, self._ended_s = ended, at_s

    @property
    def begun(self) -> bool:
        """Whether anything was sent."""
        return self._request is not None

    def cassette(self, labels: Mapping[str, str]) -> Cassette:
        """Of what was sent. The secrets are still in it."""
        assert self._request is not None, "nothing was sent"
        began, ended = self._began_s, self._ended
        return Cassette(
            request=self._request,
            asked=self._asked,
            labels=dict(labels),
            head_ms=_ms(self._head_s - began) if self._head else 0.0,
            head=self._head,
            chunks=tuple(Chunk(_ms(at_s - began), data) for at_s, data in self._chunks),
            ended_ms=_ms(self._ended_s - began) if ended else 0.0,
            how=ended.how if ended else "",
            stall=ended.stall if ended else None,
            detail=ended.detail if ended else "",
            dropped_bytes=self._dropped_bytes,
        )


def write_cassette(cassette: Cassette, mask: Callable[[bytes], bytes]) -> bytes:
    """The file. Everything passes `mask` first, headers that carry credentials are masked whatever it says."""
    request = cassette.request
    lines: list[dict[str, Any]] = [
        {
            "cassette": VERSION,
            "labels": {name: _text(value, mask) for name, value in cassette.labels.items()},
            "asked": cassette.asked,
            "request": {
                "method": request.method,
                "url": _text(_SECRET_PARAMETER.sub(lambda found: found[1] + masked(found[2]), request.url), mask),
                "headers": _headers(request.headers, mask),
                **_payload(mask(request.body)),
            },
        }
    ]
    if cassette.head is not None:
        head = cassette.head
        headers = head.headers
        plain = _inflated(cassette)
        if plain is not None:
            headers = tuple(pair for pair in headers if pair[0] != "content-encoding")
        lines.append({"at_ms": cassette.head_ms, "status": head.status, "headers": _headers(headers, mask)})
        lines += [
            {"at_ms": chunk.at_ms, **_payload(chunk.data)} for chunk in _masked_chunks(cassette.chunks, plain, mask)
        ]
    ended: dict[str, Any] = {"at_ms": cassette.ended_ms, "ended": cassette.how, "stall": cassette.stall}
    lines.append(ended | {"detail": _text(cassette.detail, mask), "dropped_bytes": cassette.dropped_bytes})
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


class _Payload(msgspec.Struct, kw_only=True):
    text: str = ""
    base64: bytes = b""

    @property
    def data(self) -> bytes:
        return self.base64 or self.text.encode()


class _RequestLine(_Payload, kw_only=True):
    method: str
    url: str
    headers: tuple[tuple[str, str], ...]


class _FirstLine(msgspec.Struct, kw_only=True):
    cassette: int
    request: _RequestLine
    labels: dict[str, str] = {}
    asked: Framing | None = None


class _Line(_Payload, kw_only=True):
    at_ms: float
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    ended: str | None = None
    stall: StallReason | None = None
    detail: str = ""
    dropped_bytes: int = 0


def read_cassette(data: bytes) -> Cassette:
    """What `write_cassette` wrote. An InputError names the line that is wrong; a file without its last line is read."""
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    if not lines:
        raise InputError("The cassette is empty.")
    first = _decoded(*lines[0], _FirstLine)
    if first.cassette != VERSION:
        raise InputError(f"The cassette is of version {first.cassette}; this Turnwright reads version {VERSION}.")
    head: Head | None = None
    head_ms = 0.0
    chunks: list[Chunk] = []
    last: _Line | None = None
    for number, text in lines[1:]:
        line = _decoded(number, text, _Line)
        if line.status is not None:
            head, head_ms = Head(line.status, line.headers), line.at_ms
        elif line.ended is not None:
            last = line
        else:
            chunks.append(Chunk(line.at_ms, line.data))
    request = first.request
    return Cassette(
        request=Request(method=request.method, url=request.url, headers=request.headers, body=request.data),
        asked=first.asked,
        labels=first.labels,
        head_ms=head_ms,
        head=head,
        chunks=tuple(chunks),
        ended_ms=last.at_ms if last else 0.0,
        how=(last.ended or "") if last else "",
        stall=last.stall if last else None,
        detail=last.detail if last else "",
        dropped_bytes=last.dropped_bytes if last else 0,
    )


def _decoded(number: int, line: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
        raise InputError(f"Line {number} of the cassette cannot be read: {wrong}.") from wrong


def _inflated(cassette: Cassette) -> bytes | None:
    """The body without its compression, where it had one: inside it a secret would stand unseen."""
    assert cassette.head is not None
    try:
        undo = inflater(cassette.head.first("content-encoding"))
        return undo.feed(b"".join(chunk.data for chunk in cassette.chunks)) if undo else None
    except CodingError as wrong:
        return f"[not kept: {wrong}]".encode()


def _masked_chunks(chunks: tuple[Chunk, ...], plain: bytes | None, mask: Callable[[bytes], bytes]) -> tuple[Chunk, ...]:
    """Masks the body as a whole, since a secret may lie across two chunks, and cuts it again where it was cut; where
    its length has changed, at the same shares of it."""
    came = b"".join(chunk.data for chunk in chunks)
    shown = mask(came if plain is None else plain)
    if shown == came:
        return chunks
    pieces: list[Chunk] = []
    passed = begins = 0
    for chunk in chunks:
        passed += len(chunk.data)
        ends = len(shown) * passed // len(came)
        pieces.append(Chunk(chunk.at_ms, shown[begins:ends]))
        begins = ends
    return tuple(pieces)


def _headers(headers: tuple[tuple[str, str], ...], mask: Callable[[bytes], bytes]) -> list[tuple[str, str]]:
    return [(name, _text(masked_header(name, value), mask)) for name, value in headers]


def _text(text: str, mask: Callable[[bytes], bytes]) -> str:
    return mask(text.encode()).decode(errors="replace")


def _payload(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
