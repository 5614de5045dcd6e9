"""Faulty streams by chance: a good stream, cut into random chunks, ended in a random way at a random byte.

Nothing about them is a guess: what was delivered decides the verdict, so that no stream may be called complete that is
not, and every seed is a test of its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from turnwright.providers.codec import Dialect
from turnwright.schema.verdicts import Verdict
from turnwright.testing.dialects import SPEAKERS
from turnwright.testing.dialects.said import Frame, Said
from turnwright.testing.exchange import LAST_CHUNK, Close, Exchange, Hang, Op, Pulse, Reset, Send, chunk, opened
from turnwright.testing.fault_table.case import FINAL, Expected, FaultCase, Setting, failed, good, has_content

ENDINGS: tuple[str, ...] = ("cut", "closed", "reset", "silent", "warm")


def random_cases(count: int, seed: int) -> Iterator[FaultCase]:
    """The same for the same seed. Each is met at every request."""
    dice = random.Random(seed)
    for number in range(count):
        yield _case(f"chance-{seed}-{number}", dice)


def _case(name: str, dice: random.Random) -> FaultCase:
    dialects: tuple[Dialect, ...] = tuple(SPEAKERS)
    setting = Setting(dialect=dice.choice(dialects), streaming=True, tools=dice.random() < 0.5)
    frames = setting.frames()
    pieces = setting.pieces(frames)
    ending = dice.choice(ENDINGS)
    length = _fair_length(pieces, dice.randint(0, sum(map(len, pieces))), whole_events=ending == "warm")
    arrived = _arrived(frames, pieces, length)
    body = b"".join(pieces)[:length]
    exchange: Exchange = (*opened(setting.content_type, list(_shreds(body, dice))), _end(ending, setting))
    expected = _expected(setting, arrived, ending, length)
    follow: tuple[Exchange, ...] = (setting.reply(Said(text=(FINAL,))),) if expected.requests == 2 else ()
    return FaultCase(
        id=name,
        fault=f"chance-{ending}",
        about=f"{length} of {sum(map(len, pieces))} bytes, then {ending}",
        dialect=setting.dialect,
        streaming=True,
        tools=setting.tools,
        once=False,
        expected=expected,
        exchanges=(exchange, *follow),
    )


def _fair_length(pieces: Sequence[bytes], length: int, whole_events: bool) -> int:
    """Never between an event's last data byte and its end: whether that event was delivered is a matter of taste.
    Noise comes between whole events."""
    end = 0
    for piece in pieces:
        end += len(piece)
        if whole_events and length <= end:
            return end
        if end - (len(piece) - len(piece.rstrip(b"\n"))) <= length < end:
            return end
    return length


def _arrived(frames: list[Frame], pieces: Sequence[bytes], length: int) -> list[Frame]:
    arrived = []
    end = 0
    for one, piece in zip(frames, pieces, strict=True):
        end += len(piece)
        if end <= length:
            arrived.append(one)
    return arrived


def _shreds(body: bytes, dice: random.Random) -> Iterator[bytes]:
    at = 0
    while at < len(body):
        size = dice.choice((1, 2, 7, 40, 300, 5000))
        yield body[at : at + size]
        at += size


def _end(ending: str, setting: Setting) -> Op:
    match ending:
        case "cut":
            return Send(LAST_CHUNK)
        case "closed":
            return Close()
        case "reset":
            return Reset()
        case "silent":
            return Hang()
        case _:
            return Pulse(chunk(b": keepalive\n\n" if setting.sse else b"\n"))


def _expected(setting: Setting, arrived: list[Frame], ending: str, length: int) -> Expected:
    if any(one.kind in ("finish", "done") for one in arrived):
        return good(setting)
    verdict: Verdict = "truncated" if ending == "cut" else "transport" if ending in ("closed", "reset") else "stall"
    if ending == "cut" and length == 0:
        verdict = "non_json"
    return failed(verdict, retryable=not has_content(arrived), text=setting.text_of(arrived))
