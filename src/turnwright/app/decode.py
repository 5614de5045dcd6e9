"""`turnwright wire decode`: what a provider's response means, from a body or from records of many (P21)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Literal

import msgspec

from turnwright.kernel.assemble import Assembly, Reply
from turnwright.kernel.verdict import verdict_of
from turnwright.providers.codec import Codec, Dialect, Framing
from turnwright.providers.decode import batches_of
from turnwright.providers.decoder import closing
from turnwright.providers.dialects import DIALECTS, codec_of
from turnwright.providers.http_route import ReplyReader
from turnwright.schema.errors import InputError, UsageError
from turnwright.schema.messages import ToolCall
from turnwright.schema.parts import Closed, Part, Usage
from turnwright.schema.verdicts import ErrorKind, FinishClass, Verdict
from turnwright.wire.capture import read_cassette
from turnwright.wire.playback import Playback, Sleeper

_OWN_ID = "\0own-"
"""Marks ids that the wire did not give; no provider's JSON carries one that starts so in earnest."""


class Counted(msgspec.Struct, frozen=True):
    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None


class DecodedCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str | None
    """None where the wire gave none that could be used."""
    name: str
    arguments: Any
    """None where they are no JSON object; then `error` says why."""
    error: str = ""


class DecodedError(msgspec.Struct, frozen=True):
    kind: ErrorKind
    status: int | None
    message: str


class Decoded(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `wire decode`."""

    id: str | msgspec.UnsetType = msgspec.UNSET
    text: str
    reasoning: str | None
    tool_calls: list[DecodedCall]
    finish_reason: str | None
    finish: FinishClass | None
    usage: Counted | None
    usage_reported: Counted | None
    verdict: Verdict
    error: DecodedError | None
    refusal: str | msgspec.UnsetType = msgspec.UNSET


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded response. Other fields are its keeper's."""

    dialect: str
    id: str = ""
    stream: bool = False
    status: int = 200
    response_headers: dict[str, Any] | None = None
    body: str = ""
    body_base64: str | None = None

    def bytes(self) -> bytes:
        return self.body.encode() if self.body_base64 is None else base64.b64decode(self.body_base64, validate=True)


class Cut(msgspec.Struct, frozen=True):
    """How a body is fed: the answers must not differ."""

    how: Literal["whole", "bytes", "random"] = "whole"
    seed: int = 0


WHOLE = Cut()


def cut_of(text: str) -> Cut:
    """`whole`, `bytes` or `random:SEED`."""
    how, _, seed = text.partition(":")
    if how in ("whole", "bytes") and not seed:
        return Cut("whole" if how == "whole" else "bytes")
    if how == "random" and (not seed or seed.isdecimal()):
        return Cut("random", int(seed or 0))
    raise UsageError(f"--cut {text!r} is none of whole, bytes, random:SEED.", remedy="SEED is a number.")


def dialect_of(name: str) -> Dialect:
    for dialect in DIALECTS:
        if name == dialect:
            return dialect
    if name == "ollama-generate":
        return "ollama"
    raise UsageError(f"No dialect {name!r}.", remedy=f"Known are {', '.join(DIALECTS)}.")


def pieces_of(body: bytes, cut: Cut) -> Iterator[bytes]:
    match cut.how:
        case "whole":
            yield body
        case "bytes":
            for at in range(len(body)):
                yield body[at : at + 1]
        case "random":
            at, state = 0, cut.seed
            while at < len(body):
                # Knuth's generator: the same seed cuts the same way everywhere.
                state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
                size = 1 + (state >> 33) % (3 if (state >> 60) % 2 else 500)
                yield body[at : at + size]
                at += size


def decode_body(
    dialect: Dialect, body: bytes, *, content_type: str = "", status: int = 200, cut: Cut = WHOLE
) -> Decoded:
    """A body of which nothing more is known: whether it streams is for its bytes to say."""
    return _decoded(_body_batches(dialect, body, content_type, status, cut))


def events_of_body(
    dialect: Dialect, body: bytes, *, content_type: str = "", status: int = 200, cut: Cut = WHOLE
) -> Iterator[bytes]:
    """The parts as lines of NDJSON, without line ends."""
    for batch in _body_batches(dialect, body, content_type, status, cut):
        for part in batch:
            yield msgspec.json.encode(part)


def _body_batches(dialect: Dialect, body: bytes, content_type: str, status: int, cut: Cut) -> Iterator[Sequence[Part]]:
    codec = codec_of(dialect)
    headers = {"content-type": content_type} if content_type else {}
    asked: Framing | None = None if codec.framing == "ndjson" and _is_document(body) else codec.framing
    return batches_of(codec, pieces_of(body, cut), status=status, headers=headers, asked=asked)


def _is_document(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def decode_record(record: Record, cut: Cut = WHOLE) -> Decoded:
    decoded = _decoded(_record_batches(record, cut))
    return msgspec.structs.replace(decoded, id=record.id)


def _record_batches(record: Record, cut: Cut) -> Iterator[Sequence[Part]]:
    codec: Codec = codec_of(dialect_of(record.dialect))
    headers = {name.lower(): str(value) for name, value in (record.response_headers or {}).items()}
    asked = codec.framing if record.stream else None
    return batches_of(codec, pieces_of(record.bytes(), cut), status=record.status, headers=headers, asked=asked)


async def decode_cassette(data: bytes, *, clock: Sleeper | None = None) -> Decoded:
    """A recorded attempt through the same gate, framing and codec; with a clock at the speed it was recorded at."""
    cassette = read_cassette(data)
    codec = codec_of(dialect_of(cassette.labels.get("dialect", "")))
    playback = Playback(cassette, clock=clock)
    reader = ReplyReader(playback, codec)
    batches: list[Sequence[Part]] = []
    while (parts := await reader.read()) is not None:
        batches.append(parts)
    assert playback.ended is not None, "a reply is read to its end"
    batches.append(closing(codec, playback.head, playback.ended, 0.0, decoder=reader.decoder, window=None))
    return _decoded(batches)


_records = msgspec.json.Decoder(Record)


def decode_records(lines: Iterable[bytes], cut: Cut = WHOLE, *, events: bool = False) -> Iterator[bytes]:
    """One line out for each record in, or the lines of its parts, each with the record's id."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = _records.decode(line)
            record.bytes()
        except (msgspec.DecodeError, binascii.Error, RecursionError) as bad:
            raise InputError(f"Record {number} cannot be read: {bad}.", remedy="See wire decode --help.") from bad
        if not events:
            yield msgspec.json.encode(decode_record(record, cut))
            continue
        head = b'{"id":%b,' % msgspec.json.encode(record.id)
        for batch in _record_batches(record, cut):
            for part in batch:
                yield head + msgspec.json.encode(part)[1:]


def _decoded(batches: Iterable[Sequence[Part]]) -> Decoded:
    numbers = count()
    assembly = Assembly(new_id=lambda: f"{_OWN_ID}{next(numbers)}")
    last: Sequence[Part] = ()
    for last in batches:
        assembly.add(last)
    closed = last[-1]
    assert isinstance(closed, Closed)
    return _shown(assembly.reply(), closed)


def _shown(reply: Reply, closed: Closed) -> Decoded:
    reasoning = "".join(thought.text for thought in reply.message.reasoning)
    error = reply.error
    return Decoded(
        text=reply.message.text,
        reasoning=reasoning or None,
        tool_calls=[_call(call) for call in reply.message.calls],
        finish_reason=reply.finish_raw,
        finish=reply.finish,
        usage=_counted(reply.usage),
        usage_reported=_counted(reply.reported),
        verdict=verdict_of(reply, closed),
        error=DecodedError(error.kind, error.status, error.message) if error else None,
        refusal=reply.refusal or msgspec.UNSET,
    )


def _call(call: ToolCall) -> DecodedCall:
    return DecodedCall(
        id=None if call.id.startswith(_OWN_ID) else call.id,
        name=call.name,
        arguments=None if call.raw else msgspec.json.decode(call.arguments),
        error=call.problem,
    )


def _counted(usage: Usage | None) -> Counted | None:
    if usage is None:
        return None
    return Counted(usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning)
