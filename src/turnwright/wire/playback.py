"""A cassette played again, through the same gate and framing, at its own speed or at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from turnwright.schema.frames import Frame
from turnwright.wire.capture import Cassette
from turnwright.wire.connection import Head
from turnwright.wire.exchange import Ended
from turnwright.wire.gate import Reading
from turnwright.wire.reading import BodyReader


class Sleeper(Protocol):
    async def sleep(self, delay_s: float) -> None: ...


class Playback:
    """Reads like an `Exchange`. `speed` 1 is as it was, 2 twice as fast; without a clock there is no waiting."""

    def __init__(self, cassette: Cassette, *, clock: Sleeper | None = None, speed: float = 1.0) -> None:
        self.head: Head | None = cassette.head
        self.ended: Ended | None = None
        self._cassette = cassette
        self._clock = clock
        self._speed = speed
        self._next = 0
        self._at_ms = 0.0
        head = cassette.head or Head(0, ())
        self._reader = BodyReader(head.status, dict(reversed(head.headers)), cassette.asked)

    @property
    def reading(self) -> Reading | None:
        return self._reader.reading

    async def read(self) -> Sequence[Frame] | None:
        chunks = self._cassette.chunks
        while self.ended is None and self._next < len(chunks) and self.head is not None:
            chunk = chunks[self._next]
            self._next += 1
            await self._until(chunk.at_ms)
            if frames := self._reader.feed(chunk.data):
                return frames
        if self.ended is not None:
            return None
        await self._until(self._cassette.ended_ms)
        frames = self._reader.end(cut=self._cassette.how in ("stall", "transport", ""))
        self.ended = self._how()
        return frames or None

    def progressed(self) -> None:
        """Nothing waits here."""

    def finished(self) -> None:
        """Nothing waits here."""

    def leave(self) -> None:
        if self.ended is None:
            self.ended = Ended(how="eof", bytes_in=self._bytes_in(), replaced=self._reader.replaced)

    def close(self) -> None:
        """Nothing is open."""

    async def _until(self, at_ms: float) -> None:
        if self._clock is not None and at_ms > self._at_ms:
            await self._clock.sleep((at_ms - self._at_ms) / 1000 / self._speed)
        self._at_ms = max(at_ms, self._at_ms)

    def _how(self) -> Ended:
        return msgspec.structs.replace(self._ending(), replaced=self._reader.replaced)

    def _ending(self) -> Ended:
        reader, cassette = self._reader, self._cassette
        came = self._bytes_in()
        if reader.refused is not None:
            why = reader.refused
            return Ended(how=why.how, detail=why.detail, bytes_in=came, body=reader.body, excerpt=reader.excerpt)
        if reader.too_large:
            return Ended(how="too_large", detail="one piece of the reply is too large", bytes_in=came)
        if cassette.how in ("stall", "transport"):
            how: Literal["stall", "transport"] = "stall" if cassette.how == "stall" else "transport"
            return Ended(how=how, stall=cassette.stall, detail=cassette.detail, bytes_in=came)
        if cassette.head is None or not cassette.how:
            return Ended(how="transport", detail="the recording ends before the reply does", bytes_in=came)
        return Ended(how="eof", detail=cassette.detail, bytes_in=came)

    def _bytes_in(self) -> int:
        return sum(len(chunk.data) for chunk in self._cassette.chunks) + self._cassette.dropped_bytes
