"""Frames to parts, in batches: drives a codec over one reply, live or played again. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from turnwright.providers.codec import Codec, State
from turnwright.providers.overflow import says_overflow, shows_overflow
from turnwright.providers.retry_after import retry_after_s
from turnwright.schema.frames import Frame
from turnwright.schema.parts import (
    FOREIGN,
    UNREADABLE,
    Closed,
    Done,
    Finish,
    Part,
    Raw,
    ReasoningPart,
    Start,
    StreamError,
    Text,
    ToolCallArguments,
    Usage,
    UsagePart,
)
from turnwright.schema.verdicts import FinishClass
from turnwright.wire.connection import Head
from turnwright.wire.exchange import Ended
from turnwright.wire.gate import Reading

_NOT_CONTENT: frozenset[type] = frozenset({Start, UsagePart})
"""Parts that keep a stream warm and say nothing."""

_FRAGMENTS: frozenset[type] = frozenset({Text, ReasoningPart, ToolCallArguments})
"""What nearly every batch is one of."""

_ENDS: frozenset[type] = frozenset({Done, Finish, StreamError, UsagePart})

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
        self._overflows = False
        self._usage: Usage | None = None
        self._finish: FinishClass | None = None

    def feed(self, frames: Sequence[Frame], reading: Reading | None) -> Sequence[Part]:
        if not self._begun:
            self._begun = True
            self._state = self._codec.begin(reading != "json")
        if len(frames) == 1:
            self._state, only = self._codec.step(self._state, frames[0])
            return only
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
        if len(parts) == 1 and type(parts[0]) in _FRAGMENTS:
            return True
        kinds: set[type] = set(map(type, parts))
        if not kinds.isdisjoint(_ENDS):
            for part in parts:
                if type(part) in _ENDS:
                    self._note(part)
        said = kinds - _NOT_CONTENT
        if said == {Raw}:
            return any(isinstance(part, Raw) and part.kind not in (UNREADABLE, FOREIGN) for part in parts)
        return bool(said)

    def overflowed(self, window: int | None) -> bool:
        """Whether the conversation outgrew the window, by what was said or by the account (P17)."""
        return self._overflows or shows_overflow(self._usage, window, self._finish)

    def _note(self, part: Part) -> None:
        match part:
            case Done():
                self.whole = True
            case Finish(finish=finish):
                self.finished, self._finish = True, finish
            case StreamError():
                self.failed = True
                self._overflows = self._overflows or says_overflow(part)
            case UsagePart(usage=usage):
                self._usage = usage if self._usage is None else _later(self._usage, usage)
            case _:
                pass

    def end(self) -> Sequence[Part]:
        parts = self._codec.end(self._state) if self._begun else ()
        self.progress(parts)
        return parts


def _later(before: Usage, usage: Usage) -> Usage:
    """The counts that are needed here, of an account that comes in pieces."""
    return Usage(
        input=before.input if usage.input is None else usage.input,
        output=before.output if usage.output is None else usage.output,
    )


def closing(
    codec: Codec, head: Head | None, ended: Ended, now_s: float, *, decoder: Decoder, window: int | None
) -> list[Part]:
    """The last parts of an attempt: the error that a status stands for, and how it closed."""
    headers = joined_headers(head)
    status = head.status if head else None
    parts: list[Part] = []
    wait_s: float | None = None
    if head is not None and ended.how == "http_error":
        parts.append(codec.read_error(head.status, headers, ended.body))
        decoder.progress(parts)
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
            replaced=ended.replaced,
            excerpt=ended.excerpt,
            overflow=decoder.overflowed(window),
        )
    )
    return parts


def joined_headers(head: Head | None) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in head.headers if head else ():
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
