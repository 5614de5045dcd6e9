"""Replies that end too early: cleanly, with the connection closed, or with it reset, at every stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from turnwright.schema.verdicts import Verdict
from turnwright.testing.dialects.said import Frame
from turnwright.testing.exchange import LAST_CHUNK, Close, Exchange, Op, Reset, Send, chunk, head, streamed
from turnwright.testing.fault_table.case import (
    Behaviour,
    Expected,
    Fault,
    Setting,
    before,
    failed,
    good,
    has_content,
    up_to,
)

Ending: TypeAlias = Literal["cut", "closed", "reset"]
ENDINGS: dict[Ending, str] = {
    "cut": "the body ends properly, too early",
    "closed": "the connection is closed",
    "reset": "the connection is reset",
}
Make: TypeAlias = Callable[[Setting], Behaviour | None]


def hung_up(ending: Ending) -> Op:
    return Reset() if ending == "reset" else Close()


def _before_reply(ending: Ending) -> Make:
    return lambda setting: Behaviour((hung_up(ending),), failed("transport"))


def _mid_head(ending: Ending) -> Make:
    torso = b"HTTP/1.1 200 OK\r\nContent-Ty"
    return lambda setting: Behaviour((Send(torso), hung_up(ending)), failed("transport"))


def _after_headers(ending: Ending) -> Make:
    def make(setting: Setting) -> Behaviour:
        return Behaviour((*setting.begun([]), hung_up(ending)), failed("transport"))

    return make


def _ended(exchange: Exchange, ending: Ending) -> Exchange:
    return (*exchange, Send(LAST_CHUNK) if ending == "cut" else hung_up(ending))


def _torso(setting: Setting, frames: list[Frame], ending: Ending) -> Expected:
    """Of a stream that stops after these frames."""
    retryable = not has_content(frames)
    text = setting.text_of(frames)
    if ending == "cut":
        return failed("truncated", retryable=retryable, text=text, status=200)
    return failed("transport", retryable=retryable, text=text)


def _stage(find: Callable[[Setting, list[Frame]], list[Frame] | None]) -> Callable[[Ending], Make]:
    """A stream that stops at a frame's end."""

    def ended(ending: Ending) -> Make:
        def make(setting: Setting) -> Behaviour | None:
            frames = find(setting, setting.frames()) if setting.streaming else None
            if frames is None:
                return None
            return Behaviour(_ended(setting.begun(frames), ending), _torso(setting, frames, ending))

        return make

    return ended


def _mid_event(ending: Ending) -> Make:
    """In the middle of the second piece of text: the first is kept, the half one is no JSON."""

    def make(setting: Setting) -> Behaviour | None:
        if not setting.streaming or setting.tools:
            return None
        frames = up_to(setting.frames(), "text", 2)
        assert frames is not None, "the text has several deltas"
        half = setting.pieces(frames)[-1]
        exchange = (*setting.begun(frames[:-1]), Send(chunk(half[: len(half) // 2])))
        return Behaviour(_ended(exchange, ending), _torso(setting, frames[:-1], ending))

    return make


def _mid_first_event(ending: Ending) -> Make:
    def make(setting: Setting) -> Behaviour | None:
        if not setting.streaming or setting.tools:
            return None
        first = setting.pieces(setting.frames())[0]
        exchange = (*setting.begun([]), Send(chunk(first[: len(first) // 2])))
        return Behaviour(_ended(exchange, ending), _torso(setting, [], ending))

    return make


def _mid_document(ending: Ending) -> Make:
    """Half of the JSON. Nothing of it was shown, so it may be asked for again."""

    def make(setting: Setting) -> Behaviour | None:
        if setting.streaming:
            return None
        body = setting.body()
        half = body[: len(body) // 2]
        verdict: Verdict = "truncated" if ending == "cut" else "transport"
        promised = len(half) if ending == "cut" else len(body)
        first = head(200, [("Content-Type", setting.content_type), ("Content-Length", str(promised))])
        after = () if ending == "cut" else (hung_up(ending),)
        return Behaviour((Send(first + half), *after), failed(verdict))

    return make


def _after_finish(ending: Ending) -> Make:
    """The answer is here: what the connection did next does not unsay it."""

    def make(setting: Setting) -> Behaviour | None:
        frames = up_to(setting.frames(), "finish") if setting.streaming else None
        if frames is None:
            return None
        return Behaviour(_ended(setting.begun(frames), ending), good(setting))

    return make


def _arguments(setting: Setting, frames: list[Frame]) -> list[Frame] | None:
    return up_to(frames, "arguments", 2) if setting.tools and setting.fragments else None


STAGES: tuple[tuple[str, str, Callable[[Ending], Make], frozenset[Ending]], ...] = (
    ("before-reply", "Instead of a reply", _before_reply, frozenset({"closed", "reset"})),
    ("in-head", "In the middle of the headers", _mid_head, frozenset({"closed", "reset"})),
    ("after-head", "After the headers", _after_headers, frozenset({"closed", "reset"})),
    (
        "after-start",
        "After the opening event",
        _stage(lambda setting, frames: None if setting.tools else up_to(frames, "start")),
        frozenset(ENDINGS),
    ),
    ("in-first-event", "In the middle of the first event", _mid_first_event, frozenset(ENDINGS)),
    ("in-event", "In the middle of an event, after some text", _mid_event, frozenset(ENDINGS)),
    (
        "in-text",
        "After some text",
        _stage(lambda setting, frames: None if setting.tools else up_to(frames, "text", 2)),
        frozenset(ENDINGS),
    ),
    ("in-arguments", "In the middle of a call's arguments", _stage(_arguments), frozenset(ENDINGS)),
    (
        "before-finish",
        "After everything but the finish",
        _stage(lambda setting, frames: before(frames, "finish")),
        frozenset(ENDINGS),
    ),
    ("in-document", "In the middle of the document", _mid_document, frozenset(ENDINGS)),
    ("after-finish", "After the finish, without the last frame or chunk", _after_finish, frozenset(ENDINGS)),
)


def _unsized(setting: Setting, body: bytes) -> Exchange:
    """As HTTP/1.0 did it: the end of the connection is the end of the body."""
    first = head(200, [("Content-Type", setting.content_type), ("Connection", "close")])
    return (Send(first), Send(body), Close())


def _unsized_whole(setting: Setting) -> Behaviour:
    return Behaviour(_unsized(setting, setting.body()), good(setting))


def _unsized_cut(setting: Setting) -> Behaviour | None:
    if not setting.streaming or setting.tools:
        return None
    frames = up_to(setting.frames(), "text", 2)
    assert frames is not None, "the text has several deltas"
    return Behaviour(_unsized(setting, b"".join(setting.pieces(frames))), _torso(setting, frames, "cut"))


def _length_too_short(setting: Setting) -> Behaviour | None:
    """The header promises less than is sent; the rest is not the reply's."""
    if setting.tools:
        return None
    frames = up_to(setting.frames(), "text", 2) if setting.streaming else None
    body = setting.body()
    kept = len(b"".join(setting.pieces(frames))) if frames else len(body) // 2
    first = head(200, [("Content-Type", setting.content_type), ("Content-Length", str(kept))])
    return Behaviour((Send(first + body), Close()), _torso(setting, frames or [], "cut"))


def _length_too_long(setting: Setting) -> Behaviour:
    """The header promises more than is sent. A stream that has finished is whole all the same; a document is not."""
    body = setting.body()
    first = head(200, [("Content-Type", setting.content_type), ("Content-Length", str(len(body) + 100))])
    return Behaviour((Send(first + body), Close()), good(setting) if setting.streaming else failed("transport"))


def _bad_chunk_size(setting: Setting) -> Behaviour | None:
    if not setting.streaming or setting.tools:
        return None
    frames = up_to(setting.frames(), "text", 2)
    assert frames is not None, "the text has several deltas"
    return Behaviour(
        (*setting.begun(frames), Send(b"zz\r\nnot a chunk\r\n"), Close()), _torso(setting, frames, "closed")
    )


def _not_http(setting: Setting) -> Behaviour:
    del setting
    return Behaviour((Send(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), Close()), failed("transport"))


def _interim(setting: Setting) -> Behaviour:
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
    return Behaviour((Send(hint), *setting.reply()), good(setting))


def _one_chunk(setting: Setting) -> Behaviour | None:
    return Behaviour(streamed(setting.content_type, [setting.body()]), good(setting)) if setting.streaming else None


def _all() -> Iterator[Fault]:
    for name, where, make, endings in STAGES:
        for ending, how in ENDINGS.items():
            if ending in endings:
                yield Fault(f"{ending}-{name}", f"{where}, {how}", make(ending))
    yield Fault("unsized", "A reply whose end is the connection's end", _unsized_whole)
    yield Fault("unsized-in-text", "The same, ended after some text", _unsized_cut)
    yield Fault("length-too-short", "Content-Length says less than is sent", _length_too_short)
    yield Fault("length-too-long", "Content-Length says more than is sent", _length_too_long)
    yield Fault("bad-chunk-size", "A chunk size that is no number", _bad_chunk_size)
    yield Fault("not-http", "Another protocol answers", _not_http)
    yield Fault("early-hints", "An interim response before the reply", _interim)
    yield Fault("one-chunk", "The whole stream in one chunk", _one_chunk)


FAULTS = tuple(_all())
