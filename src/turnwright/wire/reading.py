"""A response's body, from bytes to frames: content coding, gate, framing. Pure: a capture is read by the same code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from turnwright.schema.frames import Frame
from turnwright.wire.content_coding import CodingError, Inflater, inflater
from turnwright.wire.gate import Framing, Reading, Refused, gate
from turnwright.wire.json_array import ArrayFramer
from turnwright.wire.ndjson import LineFramer
from turnwright.wire.sse import Framer, SseEvent
from turnwright.wire.utf8 import Utf8

DOCUMENT_BYTES_MAX = 64 * 1024 * 1024
REFUSED_BYTES_MAX = 64 * 1024
"""So much of a body that is not an answer is kept as evidence."""
EXCERPT_CHARS_MAX = 2_000
BLANKS_KEPT = 64

_Framer: TypeAlias = Framer | LineFramer | ArrayFramer
_FRAMERS: dict[Reading, Callable[[], _Framer]] = {"sse": Framer, "ndjson": LineFramer, "json-array": ArrayFramer}
_whole_json = msgspec.json.Decoder(msgspec.Raw)


class BodyReader:
    """Feed it bytes as they come; it gives frames. Any cut gives the same frames.

    `reading` is how the body is read, once that is known; `refused` why it is not an answer. `headers` have
    lower-case names, `asked` is the framing of the stream that was asked for, None where a document was.
    """

    def __init__(self, status: int, headers: Mapping[str, str], asked: Framing | None) -> None:
        self.reading: Reading | None = None
        self.refused: Refused | None = None
        self.too_large = False
        self._status = status
        self._content_type = headers.get("content-type", "")
        self._asked = asked
        self._framer: _Framer | None = None
        self._utf8 = Utf8()
        self._inflater: Inflater | None = None
        self._held: list[bytes] = []
        """Bytes before the gate has decided, and a document's or a refused body's after it."""
        self._held_bytes = 0
        self._blank = True
        """No other byte has come yet."""
        try:
            self._inflater = inflater(headers.get("content-encoding", ""))
        except CodingError as wrong:
            self._inflater = None
            self._refuse(Refused("http_error" if not 200 <= status < 300 else "non_json", str(wrong)))

    def feed(self, data: bytes) -> Sequence[Frame]:
        if self._inflater is not None:
            try:
                data = self._inflater.feed(data)
            except CodingError as wrong:
                self._inflater = None
                frames = self._plain(wrong.plain)
                self._refuse(self.refused or Refused("non_json", str(wrong)))
                self._hold(wrong.rest)
                return frames
        return self._plain(data)

    def _plain(self, data: bytes) -> Sequence[Frame]:
        if self._framer is not None:
            return self._framed(self._framer.feed(data))
        self._hold(data)
        if self.reading is None and self.refused is None:
            return self._decide(ended=False)
        return ()

    def end(self, *, cut: bool = False) -> Sequence[Frame]:
        """The bytes are over. `cut`: the connection broke, so that a document is not whole whatever it looks like."""
        frames: list[Frame] = []
        if self.reading is None and self.refused is None and not cut:
            frames += self._decide(ended=True)
        if self._framer is not None:
            return [*frames, *(frame for frame in self._framed(self._framer.end()) if _is_whole(frame))]
        if self.reading == "json" and not cut and not self.too_large:
            frames += self._document()
        return frames

    @property
    def body(self) -> bytes:
        """What is kept of a body that was refused."""
        return b"".join(self._held)[:REFUSED_BYTES_MAX] if self.refused else b""

    @property
    def excerpt(self) -> str:
        return self.body[: EXCERPT_CHARS_MAX * 4].decode(errors="replace")[:EXCERPT_CHARS_MAX]

    @property
    def replaced(self) -> int:
        """Invalid UTF-8 sequences that were replaced."""
        return self._utf8.replaced if self._framer is None else self._framer.utf8.replaced

    def _hold(self, data: bytes) -> None:
        if self._blank:
            data = self._without_blanks(data)
        limit = REFUSED_BYTES_MAX if self.refused else DOCUMENT_BYTES_MAX
        if self._held_bytes + len(data) > limit:
            self.too_large = self.refused is None
            data = data[: limit - self._held_bytes] if self.refused else b""
        if data:
            self._held.append(data)
            self._held_bytes += len(data)

    def _without_blanks(self, data: bytes) -> bytes:
        """Blanks before the first byte keep a connection warm. They need no memory, only the first of them."""
        rest = data.lstrip(b" \t\r\n")
        self._blank = not rest
        return data[: len(data) - len(rest)][: max(0, BLANKS_KEPT - self._held_bytes)] + rest

    def _decide(self, *, ended: bool) -> Sequence[Frame]:
        first = b"".join(self._held)
        self._held = [first]
        decided = gate(self._status, self._content_type, first, self._asked, ended=ended)
        if isinstance(decided, Refused):
            self._refuse(decided)
        elif decided is not None:
            self.reading = decided
            if make := _FRAMERS.get(decided):
                self._framer = make()
                self._held, self._held_bytes = [], 0
                return self._framed(self._framer.feed(first))
        return ()

    def _refuse(self, why: Refused) -> None:
        self.refused = why
        self.reading = None
        self._framer = None

    def _framed(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        if self._framer is not None and self._framer.too_large:
            self.too_large = True
        return frames

    def _document(self) -> Sequence[Frame]:
        document = self._utf8.valid(b"".join(self._held).removeprefix(b"\xef\xbb\xbf").strip())
        self._held = []
        problem = _json_problem(document)
        if problem == "cut":
            return ()
        if problem:
            self._held = [document]
            self._refuse(Refused("non_json", f"the body is not valid JSON: {problem}"))
            return ()
        return (Frame(document),)


def _json_problem(data: bytes) -> str:
    """Empty for valid JSON, `cut` for the beginning of it, else what is wrong."""
    try:
        _whole_json.decode(data)
    except msgspec.DecodeError as wrong:
        words = str(wrong)
        place = re.search(r"\(byte (\d+)\)", words)
        # msgspec names no place where it met the end, unless it was inside a number.
        at_end = place is None or (int(place[1]) >= len(data) and "trailing" not in words)
        return "cut" if at_end else words
    except RecursionError:
        return "it is nested too deeply"
    return ""


def _is_whole(frame: Frame) -> bool:
    """A last event may lack its blank line; one that was cut inside its JSON is no event."""
    if isinstance(frame, SseEvent) and frame.complete:
        return True
    return frame.data.strip() == b"[DONE]" or not _json_problem(frame.data)
