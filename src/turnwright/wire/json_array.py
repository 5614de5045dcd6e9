"""A JSON array read element by element as it comes (Gemini's streams without `alt=sse`)."""

from __future__ import annotations

import re

from turnwright.schema.frames import Frame
from turnwright.wire.sse import EVENT_BYTES_MAX
from turnwright.wire.utf8 import Utf8

_OUTSIDE_STRING = re.compile(rb'[{}\[\]"]')
_INSIDE_STRING = re.compile(rb'["\\]')


class ArrayFramer:
    """Bytes in, objects out. Only brackets and strings are understood: whether an element is valid JSON is for the
    codec to find out. Elements that are not objects or arrays are passed over."""

    def __init__(self, element_bytes_max: int = EVENT_BYTES_MAX) -> None:
        self.too_large = False
        self.utf8 = Utf8()
        self._max = element_bytes_max
        self._depth = 0
        """1 is inside the outer array, 2 and more inside an element."""
        self._in_string = False
        self._escaped = False
        self._element: list[bytes] = []
        self._element_bytes = 0

    def feed(self, chunk: bytes) -> list[Frame]:
        if self.too_large:
            return []
        frames: list[Frame] = []
        at, begins = 0, 0 if self._depth > 1 else -1
        while at < len(chunk):
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            found = (_INSIDE_STRING if self._in_string else _OUTSIDE_STRING).search(chunk, at)
            if found is None:
                break
            at = found.end()
            match found[0]:
                case b"\\":
                    self._escaped = True
                case b'"':
                    self._in_string = not self._in_string
                case b"{" | b"[":
                    self._depth += 1
                    if self._depth == 2:
                        begins = found.start()
                case _:
                    self._depth = max(self._depth - 1, 0)
                    if self._depth == 1 and begins >= 0:
                        frames.append(self._whole(chunk[begins:at]))
                        begins = -1
        if begins >= 0 and self._depth > 1:
            self._element.append(chunk[begins:])
            self._element_bytes += len(chunk) - begins
            self.too_large = self._element_bytes > self._max
        return frames

    def end(self) -> list[Frame]:
        """An element without its end is cut off, not an answer."""
        return []

    def _whole(self, last: bytes) -> Frame:
        self._element.append(last)
        data = b"".join(self._element)
        self._element, self._element_bytes = [], 0
        return Frame(self.utf8.valid(data))
