"""Silence, and noise that only looks like progress (P7). Times are in pulses of the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from turnwright.schema.verdicts import StallReason
from turnwright.testing.dialects.said import Frame, framed
from turnwright.testing.exchange import (
    LAST_CHUNK,
    Drip,
    Hang,
    Op,
    Pulse,
    Send,
    Wait,
    chunk,
    head,
)
from turnwright.testing.fault_table.case import Behaviour, Fault, Setting, before, failed, good, has_content, up_to

Make: TypeAlias = Callable[[Setting], Behaviour | None]


def _keepalive(setting: Setting) -> bytes:
    """A comment where the framing has comments, else an empty line."""
    return b": keepalive\n\n" if setting.sse else b"\n"


def _idle(setting: Setting) -> bytes:
    """A ping or an empty delta."""
    return framed(setting.speaker.idle_frame, setting.speaker.framing)


def _silent_headers(setting: Setting) -> Behaviour | None:
    return None if setting.tools else Behaviour((Hang(),), failed("stall", stall="waiting_headers"))


def _silent_first_part(setting: Setting) -> Behaviour | None:
    if setting.tools:
        return None
    return Behaviour((*setting.begun([]), Hang()), failed("stall", stall="first_part"))


def _warm_first_part(setting: Setting) -> Behaviour | None:
    """A document may be kept warm too: JSON allows whitespace before it."""
    if setting.tools:
        return None
    noise = _keepalive(setting) if setting.streaming else b" "
    return Behaviour((*setting.begun([]), Pulse(chunk(noise))), failed("stall", stall="keepalive_only"))


def _pinged_first_part(setting: Setting) -> Behaviour | None:
    if not setting.streaming or setting.tools:
        return None
    return Behaviour((*setting.begun([]), Pulse(chunk(_idle(setting)))), failed("stall", stall="keepalive_only"))


def _after(find: Callable[[Setting], list[Frame] | None], noise: Callable[[Setting], bytes] | None) -> Make:
    """These frames, then silence or noise."""

    def make(setting: Setting) -> Behaviour | None:
        frames = find(setting) if setting.streaming else None
        if frames is None:
            return None
        last: Op = Pulse(chunk(noise(setting))) if noise else Hang()
        stall: StallReason = "keepalive_only" if noise else "gap"
        text = setting.text_of(frames)
        expected = failed("stall", retryable=not has_content(frames), text=text, stall=stall)
        return Behaviour((*setting.begun(frames), last), expected)

    return make


def _some_text(setting: Setting) -> list[Frame] | None:
    return None if setting.tools else up_to(setting.frames(), "text", 2)


def _some_arguments(setting: Setting) -> list[Frame] | None:
    return up_to(setting.frames(), "arguments", 2) if setting.tools and setting.fragments else None


def _all_but_finish(setting: Setting) -> list[Frame]:
    return before(setting.frames(), "finish")


def _held_open(kind: str) -> Make:
    """Everything came, and the server does not hang up."""

    def make(setting: Setting) -> Behaviour | None:
        frames = up_to(setting.frames(), kind) if setting.streaming else None
        return Behaviour((*setting.begun(frames), Hang()), good(setting)) if frames else None

    return make


def _half_document(setting: Setting) -> Behaviour | None:
    if setting.streaming or setting.tools:
        return None
    body = setting.body()
    first = head(200, [("Content-Type", setting.content_type), ("Content-Length", str(len(body)))])
    return Behaviour((Send(first + body[: len(body) // 2]), Hang()), failed("stall"))


def _endless(setting: Setting) -> Behaviour | None:
    """Real progress that never ends: only the total limit stops it."""
    if not setting.streaming or setting.tools:
        return None
    opening = up_to(setting.frames(), "text") or []
    more = chunk(setting.pieces(opening)[-1])
    return Behaviour((*setting.begun(opening), Pulse(more)), failed("stall", retryable=False, text=None, stall="total"))


def _slow_stream(setting: Setting) -> Behaviour | None:
    """Slow, but progress: a frame every half pulse, with comments between."""
    if not setting.streaming:
        return None
    ops: list[Op] = [*setting.begun([])]
    for piece in setting.pieces(setting.frames()):
        ops += [Send(chunk(_keepalive(setting))), Wait(0.5), Send(chunk(piece))]
    return Behaviour((*ops, Send(LAST_CHUNK)), good(setting))


def _dripped(setting: Setting) -> Behaviour:
    """Byte by byte, head and all."""
    body = setting.body()
    first = head(200, [("Content-Type", setting.content_type), ("Content-Length", str(len(body)))])
    return Behaviour((Drip(first + body),), good(setting))


FAULTS = (
    Fault("silent-head", "No reply to the request", _silent_headers),
    Fault("silent-first-part", "Headers, then silence", _silent_first_part),
    Fault("warm-first-part", "Headers, then only comments or blanks", _warm_first_part),
    Fault("pinged-first-part", "Headers, then only pings or empty deltas", _pinged_first_part),
    Fault("silent-text", "Silence after some text", _after(_some_text, None)),
    Fault("warm-text", "Only comments after some text", _after(_some_text, _keepalive)),
    Fault("pinged-text", "Only pings or empty deltas after some text", _after(_some_text, _idle)),
    Fault("silent-arguments", "Silence in the middle of a call's arguments", _after(_some_arguments, None)),
    Fault("warm-arguments", "Only comments in the middle of a call's arguments", _after(_some_arguments, _keepalive)),
    Fault("silent-before-finish", "Silence before the finish", _after(_all_but_finish, None)),
    Fault("warm-before-finish", "Only comments before the finish", _after(_all_but_finish, _keepalive)),
    Fault("silent-after-finish", "The stream stays open after the finish", _held_open("finish")),
    Fault("silent-after-done", "The stream stays open after its last frame", _held_open("done")),
    Fault("silent-document", "Silence in the middle of the document", _half_document),
    Fault("endless", "Text without end", _endless),
    Fault("slow", "A slow stream with comments in between", _slow_stream),
    Fault("dripped", "Every byte in a segment of its own", _dripped),
)
