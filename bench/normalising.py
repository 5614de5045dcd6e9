"""What normalising a stream costs, against reading the same bytes and parsing the same JSON with the same libraries and
nothing else: our reader of bodies, and msgspec's decoder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from turnwright.providers.codec import Codec, Dialect
from turnwright.providers.decode import batches_of
from turnwright.providers.dialects import codec_of
from turnwright.schema.parts import Part
from turnwright.testing.dialects import SPEAKERS
from turnwright.testing.dialects.said import Said, SaidCall, framed
from turnwright.wire.reading import BodyReader

Kind: TypeAlias = Literal["text", "reasoning", "arguments"]
Cutting: TypeAlias = Literal["an event a read", "16 KiB a read"]
KINDS: tuple[Kind, ...] = ("text", "reasoning", "arguments")
CUTTINGS: tuple[Cutting, ...] = ("an event a read", "16 KiB a read")
PIECE = "const a = 1; "
HEADERS = {"sse": {"content-type": "text/event-stream"}, "ndjson": {"content-type": "application/x-ndjson"}}

_parse = msgspec.json.Decoder().decode


class Stream(msgspec.Struct, frozen=True):
    """A reply of so many deltas, in the reads that it comes in."""

    dialect: Dialect
    chunks: tuple[bytes, ...]
    events: int


def stream_of(dialect: Dialect, kind: Kind, deltas: int, cutting: Cutting) -> Stream:
    speaker = SPEAKERS[dialect]
    pieces = (PIECE,) * deltas
    match kind:
        case "text":
            said = Said(text=pieces)
        case "reasoning":
            said = Said(reasoning=pieces, text=("So.",))
        case "arguments":
            call = SaidCall(name="write", fragments=('{"text":"', *pieces, '"}'), id="call_1")
            said = Said(calls=(call,), finish="tool_calls")
    events = [framed(frame, speaker.framing) for frame in speaker.stream(said)]
    return Stream(dialect, tuple(_cut(events, cutting)), len(events))


def _cut(events: Sequence[bytes], cutting: Cutting) -> Iterator[bytes]:
    if cutting == "an event a read":
        yield from events
        return
    body = b"".join(events)
    for at in range(0, len(body), 16 * 1024):
        yield body[at : at + 16 * 1024]


def normalised(stream: Stream) -> int:
    codec: Codec = codec_of(stream.dialect)
    headers, parts = HEADERS[SPEAKERS[stream.dialect].framing], list[Part]()
    for batch in batches_of(codec, stream.chunks, status=200, headers=headers, asked=codec.framing):
        parts += batch
    return len(parts)


def parsed(stream: Stream) -> int:
    """Every value of every event, in its own types, and nothing made of it."""
    framing = SPEAKERS[stream.dialect].framing
    reader = BodyReader(200, HEADERS[framing], framing)
    values: list[object] = []
    for chunk in stream.chunks:
        values += [_parse(frame.data) for frame in reader.feed(chunk) if frame.data != b"[DONE]"]
    return len(values) + len(reader.end())


def compared_us(stream: Stream, repeats: int) -> tuple[float, float]:
    """CPU per event of both, the least of each, their turns interleaved."""
    ours = bare = float("inf")
    for _ in range(repeats):
        ours = min(ours, _us(lambda: normalised(stream)) / stream.events)
        bare = min(bare, _us(lambda: parsed(stream)) / stream.events)
    return ours, bare


def _us(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1e6


def worst_us(dialect: Dialect, cutting: Cutting, deltas: int, repeats: int) -> tuple[Kind, float, float]:
    """Of text, reasoning and arguments that one with the worst ratio, and its figures."""
    found = [(kind, *compared_us(stream_of(dialect, kind, deltas, cutting), repeats)) for kind in kinds_of(dialect)]
    return max(found, key=lambda each: each[1] / each[2])


def grown_us(dialect: Dialect, kind: Kind, deltas: int, repeats: int) -> tuple[float, float]:
    """CPU per event of a stream four times as long, and of one as long as that."""
    long, short = (stream_of(dialect, kind, count, "16 KiB a read") for count in (4 * deltas, deltas))
    both = [(_each_us(long), _each_us(short)) for _ in range(repeats)]
    return min(each for each, _ in both), min(each for _, each in both)


def _each_us(stream: Stream) -> float:
    return _us(lambda: normalised(stream)) / stream.events


def kinds_of(dialect: Dialect) -> Sequence[Kind]:
    """Dialects that send a call whole have no arguments in pieces."""
    return KINDS[:2] if dialect in ("gemini", "ollama") else KINDS
