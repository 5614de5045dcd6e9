"""A recorded response, from bytes to parts: the way of a live one, without its clock (P15, P21)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from turnwright.providers.codec import Codec, Framing
from turnwright.providers.decoder import Decoder
from turnwright.schema.parts import Closed, Part
from turnwright.wire.reading import BodyReader


def batches_of(
    codec: Codec, chunks: Iterable[bytes], *, status: int, headers: Mapping[str, str], asked: Framing | None
) -> Iterator[Sequence[Part]]:
    """Parts in batches, one for each chunk that gave some; the last part is `Closed`. `headers` have lower-case names,
    `asked` is the framing of the stream that was asked for, None where a document was."""
    reader, decoder, bytes_in = BodyReader(status, headers, asked), Decoder(codec), 0
    for chunk in chunks:
        bytes_in += len(chunk)
        frames = reader.feed(chunk)
        if frames:
            parts = decoder.feed(frames, reader.reading)
            decoder.progress(parts)
            yield parts
    last: list[Part] = []
    if frames := reader.end():
        last += decoder.feed(frames, reader.reading)
    last += decoder.end()
    if reader.refused is not None and reader.refused.how == "http_error":
        last.append(codec.read_error(status, headers, reader.body))
    decoder.progress(last)
    closed = _closed(reader, status, bytes_in)
    yield [*last, msgspec.structs.replace(closed, overflow=decoder.overflowed(window=None))]


def _closed(reader: BodyReader, status: int, bytes_in: int) -> Closed:
    if reader.refused is not None:
        return Closed(
            how=reader.refused.how,
            status=status,
            detail=reader.refused.detail,
            bytes_in=bytes_in,
            replaced=reader.replaced,
            excerpt=reader.excerpt,
        )
    if reader.too_large:
        return Closed(how="too_large", status=status, bytes_in=bytes_in, replaced=reader.replaced)
    return Closed(how="eof", status=status, bytes_in=bytes_in, replaced=reader.replaced)
