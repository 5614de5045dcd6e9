"""Server-sent events, framed by the WHATWG rules over bytes, as they come and however they are cut."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from turnwright.schema.frames import Frame
from turnwright.wire.utf8 import Utf8, is_utf8

EVENT_BYTES_MAX = 8 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"


class SseEvent(Frame, frozen=True, gc=False):
    """A frame with all that SSE says about it."""

    id: str = ""
    """The last event id in force when it was dispatched."""
    retry: int | None = None
    complete: bool = True
    """False for a last event whose blank line never came."""


class Framer:
    """Bytes in, events out; any cut gives the same events. Each byte is looked at a fixed number of times.

    `too_large` is set, and nothing more is given, once an event outgrows `event_bytes_max`.
    """

    def __init__(self, event_bytes_max: int = EVENT_BYTES_MAX) -> None:
        self.too_large = False
        self.utf8 = Utf8()
        """Counts the invalid sequences that were replaced."""
        self._max = event_bytes_max
        self._begun = False
        self._skip_lf = False
        self._block: list[bytes] = []
        """Pieces of the block (the lines up to a blank one) that has not ended yet."""
        self._block_bytes = 0
        self._id = ""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        if not self._begun:
            chunk = self._without_bom(chunk)
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk[0] == 10:
                chunk = chunk[1:]
        if b"\r" in chunk:
            # A CR is always an end of line, so line ends can be made one kind before anything else is known.
            self._skip_lf = chunk[-1] == 13
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not chunk or self.too_large:
            return []
        return self._cut(chunk)

    def end(self) -> list[SseEvent]:
        """The bytes are over. A last event without its blank line is given, and marked."""
        if not self._begun:
            self._begun = True
            if self._block:
                self._keep(b"")
        block, self._block, self._block_bytes = b"".join(self._block), [], 0
        if self.too_large or not block:
            return []
        return self._read(block, complete=False)

    def _without_bom(self, chunk: bytes) -> bytes:
        """What to read of the first bytes: nothing while they may still become a byte order mark."""
        start = b"".join(self._block) + chunk
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._block = [start]
            return b""
        self._begun = True
        self._block = []
        return start.removeprefix(_BOM)

    def _cut(self, chunk: bytes) -> list[SseEvent]:
        events: list[SseEvent] = []
        if self._block:
            begun = self._block[-1][-1] == 10 and chunk[0] == 10  # the blank line was cut in two
            ends = 0 if begun else chunk.find(b"\n\n")
            if ends < 0:
                self._keep(chunk)
                return []
            block = b"".join([*self._block, chunk[:ends]])
            self._block, self._block_bytes = [], 0
            chunk = chunk[ends + (1 if begun else 2) :]
            events = self._slowly([block])
        ends = chunk.rfind(b"\n\n") + 2
        if ends > 1 and not self.too_large:
            whole = chunk[:ends] if ends < len(chunk) else chunk
            found = self._quickly(whole) if len(whole) <= self._max else None
            events += self._slowly(whole.split(b"\n\n")) if found is None else found
            chunk = chunk[ends:]
        if chunk and not self.too_large:
            self._keep(chunk)
        return events

    def _keep(self, piece: bytes) -> None:
        self._block.append(piece)
        self._block_bytes += len(piece)
        if self._block_bytes > self._max:
            self.too_large = True
            self._block = []

    def _quickly(self, whole: bytes) -> list[SseEvent] | None:
        """Blocks that are all one `data: ` line, or all an `event: ` and a `data: ` line, as providers send them;
        None for anything else. This is nearly the whole cost of a stream, so each step runs over all blocks at once."""
        if not (whole.isascii() or is_utf8(whole)):
            return None
        lines, last_id = whole.split(b"\n"), self._id
        if not any(lines[1::2]):
            data = lines[:-1:2]
            events = [SseEvent(line[6:], "", last_id) for line in data if line[:6] == b"data: "]
            return events if len(events) == len(data) else None
        if not any(lines[2::3]):
            names, data = lines[:-1:3], lines[1::3]
            events = [
                SseEvent(line[6:], name[7:].decode(), last_id)
                for name, line in zip(names, data, strict=False)
                if line[:6] == b"data: " and name[:7] == b"event: "
            ]
            return events if len(events) == len(names) == len(data) else None
        return None

    def _slowly(self, blocks: list[bytes]) -> list[SseEvent]:
        events: list[SseEvent] = []
        for block in blocks:
            if len(block) > self._max:
                self.too_large = True
                break
            events += self._read(block, complete=True)
        return events

    def _read(self, block: bytes, *, complete: bool) -> list[SseEvent]:
        """One block, field by field: at most one event."""
        data: list[bytes] = []
        event = b""
        retry: int | None = None
        for line in block.split(b"\n"):
            name, _, value = line.partition(b":")
            value = value[1:] if value[:1] == b" " else value
            if name == b"data":
                data.append(value)
            elif name == b"event":
                event = value
            elif name == b"id":
                if b"\0" not in value:
                    self._id = self.utf8.text(value)
            elif name == b"retry" and value.isdigit() and len(value) < 16:
                retry = int(value)
        if not data:
            return []
        joined = data[0] if len(data) == 1 else b"\n".join(data)
        return [SseEvent(self.utf8.valid(joined), self.utf8.text(event), self._id, retry, complete)]


class _Shown(msgspec.Struct):
    event: str
    data: str
    id: str
    retry: int | None


def sse_lines(chunks: Iterable[bytes]) -> list[bytes]:
    """What `turnwright wire sse` prints for these bytes: one JSON object per event, without line ends."""
    framer = Framer()
    events = [event for chunk in chunks for event in framer.feed(chunk)] + framer.end()
    return [msgspec.json.encode(_Shown(one.event or "message", one.data.decode(), one.id, one.retry)) for one in events]
