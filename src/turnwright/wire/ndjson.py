"""Newline-delimited JSON: one frame a line (Ollama's streams)."""

from __future__ import annotations

from turnwright.schema.frames import Frame
from turnwright.wire.sse import EVENT_BYTES_MAX
from turnwright.wire.utf8 import Utf8


class LineFramer:
    """Bytes in, lines out. Blank lines are nobody's; a last line without its end is given too."""

    def __init__(self, line_bytes_max: int = EVENT_BYTES_MAX) -> None:
        self.too_large = False
        self.utf8 = Utf8()
        self._max = line_bytes_max
        self._line: list[bytes] = []
        self._line_bytes = 0

    def feed(self, chunk: bytes) -> list[Frame]:
        if self.too_large:
            return []
        lines = chunk.split(b"\n")
        if len(lines) > 1 and self._line:
            lines[0] = b"".join([*self._line, lines[0]])
            self._line, self._line_bytes = [], 0
        rest = lines.pop()
        frames: list[Frame] = []
        for line in lines:
            if len(line) > self._max:
                self.too_large = True
                return frames
            if stripped := line.strip():
                frames.append(Frame(self.utf8.valid(stripped)))
        if rest:
            self._line.append(rest)
            self._line_bytes += len(rest)
            self.too_large = self._line_bytes > self._max
        return frames

    def end(self) -> list[Frame]:
        line, self._line, self._line_bytes = b"".join(self._line).strip(), [], 0
        return [Frame(self.utf8.valid(line))] if line and not self.too_large else []
