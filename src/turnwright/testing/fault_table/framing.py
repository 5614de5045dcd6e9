"""Streams that are framed oddly but rightly (P6), and a few that are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from turnwright.testing.dialects.said import Frame, Said, frame
from turnwright.testing.exchange import LAST_CHUNK, Exchange, Fill, Send, chunk, streamed
from turnwright.testing.fault_table.case import Behaviour, Fault, Setting, failed, good, up_to

Make: TypeAlias = Callable[[Setting], Behaviour | None]

OVER_CAP_BYTES = 9 * 1024 * 1024
"""More than one event may be long."""


def _sse(change: Callable[[bytes], bytes]) -> Make:
    """The same stream with its bytes changed, in one piece."""

    def make(setting: Setting) -> Behaviour | None:
        if not setting.sse:
            return None
        return Behaviour(streamed(setting.content_type, [change(setting.body())]), good(setting))

    return make


def _lines(change: Callable[[bytes], bytes]) -> Make:
    """The same for lines of JSON."""

    def make(setting: Setting) -> Behaviour | None:
        if not setting.streaming or setting.sse:
            return None
        return Behaviour(streamed(setting.content_type, [change(setting.body())]), good(setting))

    return make


def _split_lines(body: bytes) -> bytes:
    """Data over several lines: where JSON may hold a line feed, between its members."""
    return body.replace(b'{"', b'{\ndata: "')


def _decorated(body: bytes) -> bytes:
    """Comments, ids, retry times and unknown fields round every event."""
    return b":ok\n\n" + body.replace(b"\n\n", b"\nid: 7\nretry: 3000\nmood: fine\n\n: still here\n\n\n")


def _invalid_utf8(setting: Setting) -> Behaviour | None:
    """A byte that no UTF-8 text holds becomes the replacement character, and is counted."""
    if not setting.streaming or setting.tools:
        return None
    mark = "@bad@"
    body = setting.body(Said(text=("Hel", f"lo{mark}", "!"))).replace(mark.encode(), b"\xff")
    return Behaviour(streamed(setting.content_type, [body]), good(setting, text="Hello\N{REPLACEMENT CHARACTER}!"))


def _over_cap(setting: Setting) -> Behaviour | None:
    """One event beyond any reason, after some text."""
    if not setting.streaming or setting.tools:
        return None
    frames = up_to(setting.frames(), "text", 2)
    assert frames is not None, "the text has several deltas"
    start = setting.pieces(frames)[-1].replace(b"\n", b"")[:-1]
    opening = f"{len(start) + OVER_CAP_BYTES:x}\r\n".encode() + start
    exchange: Exchange = (
        *setting.begun(frames),
        Send(opening),
        Fill(b" ", OVER_CAP_BYTES),
        Send(b"\r\n" + LAST_CHUNK),
    )
    return Behaviour(exchange, failed("truncated", retryable=False, text=setting.text_of(frames), status=200))


def _broken_frame(setting: Setting) -> Behaviour | None:
    """A frame that is no JSON between two that are: a piece of the answer is lost, so it is not whole."""
    if not setting.streaming or setting.tools:
        return None
    frames = setting.frames()
    second = len(up_to(frames, "text", 2) or []) - 1
    broken = Frame("text", frames[second].data[:-3], frames[second].event)
    exchange = setting.of_frames([*frames[:second], broken, *frames[second + 1 :]])
    return Behaviour(exchange, failed("non_json", retryable=False, text=None, status=200))


def _foreign_frame(setting: Setting) -> Behaviour | None:
    """An event of a type that nobody knows yet is no emergency."""
    if not setting.streaming:
        return None
    frames = setting.frames()
    new = frame("other", {"type": "mood.changed", "mood": "fine"}, "mood.changed")
    return Behaviour(setting.of_frames([*frames[:1], new, *frames[1:]]), good(setting))


def _nulls(setting: Setting) -> Behaviour | None:
    """Hosts send null where there is nothing."""
    if setting.dialect != "openai-chat" or not setting.streaming or setting.tools:
        return None

    def with_nulls(one: Frame) -> Frame:
        if one.data == b"[DONE]":
            return one
        body = {"usage": None, "error": None, **msgspec.json.decode(one.data)}
        for choice in body["choices"]:
            empty = {"content": None, "tool_calls": None, "reasoning": None, "function_call": None, "refusal": None}
            choice["delta"] = {**empty, **choice["delta"]}
            choice["logprobs"] = None
        return Frame(one.kind, msgspec.json.encode(body), one.event)

    return Behaviour(setting.of_frames([with_nulls(one) for one in setting.frames()]), good(setting))


def _bytewise(setting: Setting) -> Behaviour | None:
    """Characters and lines are cut anywhere between chunks."""
    if not setting.streaming:
        return None
    pieces = b"".join(chunk(bytes((byte,))) for byte in setting.body())
    opening = streamed(setting.content_type, [])[:-1]
    return Behaviour((*opening, Send(pieces + LAST_CHUNK)), good(setting))


FAULTS = (
    Fault("crlf", "Lines end in CR LF", _sse(lambda body: body.replace(b"\n", b"\r\n"))),
    Fault("cr", "Lines end in CR", _sse(lambda body: body.replace(b"\n", b"\r"))),
    Fault("bom", "A byte order mark first", _sse(lambda body: b"\xef\xbb\xbf" + body)),
    Fault("no-space", "No space after `data:`", _sse(lambda body: body.replace(b"data: ", b"data:"))),
    Fault("data-lines", "Data over several lines", _sse(_split_lines)),
    Fault("decorated", "Comments, ids, retry times, unknown fields", _sse(_decorated)),
    Fault("no-last-blank", "The last event has no blank line", _sse(lambda body: body[:-1])),
    Fault("no-last-newline", "The last event has no line end", _sse(lambda body: body[:-2])),
    Fault("lines-crlf", "Lines of JSON end in CR LF", _lines(lambda body: body.replace(b"\n", b"\r\n"))),
    Fault("lines-blank", "Blank lines between lines of JSON", _lines(lambda body: body.replace(b"\n", b"\n\n"))),
    Fault("lines-unended", "The last line has no end", _lines(lambda body: body[:-1])),
    Fault("bytewise", "Every byte in a chunk of its own", _bytewise),
    Fault("invalid-utf8", "A byte that is no UTF-8 inside the text", _invalid_utf8),
    Fault("over-cap", "One event of nine megabytes", _over_cap),
    Fault("broken-frame", "A frame in the middle is no JSON", _broken_frame),
    Fault("foreign-frame", "An event of an unknown type", _foreign_frame),
    Fault("nulls", "null wherever there is nothing", _nulls),
)
