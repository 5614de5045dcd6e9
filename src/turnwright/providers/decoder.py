"""Frames to parts, in batches: drives a codec over one reply, live or played again. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from turnwright.providers.codec import Codec, State
from turnwright.providers.retry_after import retry_after_s
from turnwright.schema.frames import Frame
from turnwright.schema.parts import Closed, Done, Finish, Part, Start, StreamError, UsagePart
from turnwright.wire.connection import Head
from turnwright.wire.exchange import Ended
from turnwright.wire.gate import Reading

_NOT_CONTENT: frozenset[type] = frozenset({Start, UsagePart})
"""Parts that keep a stream warm and say nothing."""

_ENDS: frozenset[type] = frozenset({Done, Finish, StreamError})

REQUEST_ID_HEADERS = (
    "x-request-id",
    "request-id",
    "x-goog-request-id",
    "apim-request-id",
    "x-ms-request-id",
    "x-amzn-requestid",
    "x-generation-id",
    "cf-ray",
)


class Decoder:
    """One reply. `whole` once a terminal frame came, `finished` once a reason did, `failed` once an error did."""

    def __init__(self, codec: Codec) -> None:
        self.whole = False
        self.finished = False
        self.failed = False
        self._codec = codec
        self._state: State = None
        self._begun = False

    def feed(self, frames: Sequence[Frame], reading: Reading | None) -> list[Part]:
        if not self._begun:
            self._begun = True
            self._state = self._codec.begin(reading != "json")
        parts: list[Part] = []
        step, state = self._codec.step, self._state
        for frame in frames:
            state, said = step(state, frame)
            if said:
                parts += said
        self._state = state
        return parts

    def progress(self, parts: Sequence[Part]) -> bool:
        """Whether these parts say anything. Notes the ends they hold on the way."""
        kinds: set[type] = set(map(type, parts))
        if not kinds.isdisjoint(_ENDS):
            self.whole = self.whole or Done in kinds
            self.finished = self.finished or Finish in kinds
            self.failed = self.failed or StreamError in kinds
        return not kinds <= _NOT_CONTENT

    def end(self) -> Sequence[Part]:
        return self._codec.end(self._state) if self._begun else ()


def closing(codec: Codec, head: Head | None, ended: Ended, now_s: float) -> list[Part]:
    """The last parts of an attempt: the error that a status stands for, and how it closed."""
    headers = joined_headers(head)
    status = head.status if head else None
    parts: list[Part] = []
    wait_s: float | None = None
    if head is not None and ended.how == "http_error":
        parts.append(codec.read_error(head.status, headers, ended.body))
    if ended.how == "http_error" or "retry-after" in headers:
        wait_s = retry_after_s(headers, ended.body, now_s)
    request_id = next((headers[name] for name in REQUEST_ID_HEADERS if headers.get(name)), "")
    parts.append(
        Closed(
            how=ended.how,
            status=status,
            stall=ended.stall,
            detail=ended.detail,
            request_id=request_id,
            retry_after_s=wait_s,
            bytes_in=ended.bytes_in,
            excerpt=ended.excerpt,
        )
    )
    return parts


def joined_headers(head: Head | None) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in head.headers if head else ():
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
