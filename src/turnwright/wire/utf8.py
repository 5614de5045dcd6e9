"""Invalid UTF-8 is replaced and counted: JSON decoders refuse it, and one bad byte is no reason to lose an answer."""

from __future__ import annotations

_REPLACEMENT = "\ufffd"


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class Utf8:
    def __init__(self) -> None:
        self.replaced = 0

    def valid(self, data: bytes) -> bytes:
        """The same bytes where they are valid."""
        return data if data.isascii() or is_utf8(data) else self._replace(data).encode()

    def text(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            return self._replace(data)

    def _replace(self, data: bytes) -> str:
        text = data.decode(errors="replace")
        self.replaced += text.count(_REPLACEMENT) - data.count(_REPLACEMENT.encode())
        return text
