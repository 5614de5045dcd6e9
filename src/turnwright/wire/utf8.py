"""Invalid UTF-8 is replaced and counted: JSON decoders refuse it, and one bad byte is no reason to lose an answer."""

from __future__ import annotations

_REPLACEMENT = "\ufffd"


class Utf8:
    def __init__(self) -> None:
        self.replaced = 0

    def valid(self, data: bytes) -> bytes:
        """The same bytes where they are valid."""
        if data.isascii():
            return data
        try:
            data.decode()
        except UnicodeDecodeError:
            return self._replace(data).encode()
        return data

    def text(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            return self._replace(data)

    def _replace(self, data: bytes) -> str:
        text = data.decode(errors="replace")
        self.replaced += text.count(_REPLACEMENT) - data.count(_REPLACEMENT.encode())
        return text
