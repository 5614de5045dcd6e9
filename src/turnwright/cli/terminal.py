"""A terminal as text mode needs it: its width, its colours, and one line at the bottom that may be rewritten."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TextIO

from turnwright.config.display import Display, display_of
from turnwright.views.text import Line, Style, clip

COLUMNS_WITHOUT_TERMINAL = 100

_CODES: dict[Style, str] = {
    "plain": "",
    "dim": "2",
    "heading": "1",
    "user": "1;36",
    "runtime": "35",
    "assistant": "1;34",
    "reasoning": "2;3",
    "tool": "36",
    "output": "2",
    "good": "32",
    "bad": "31",
    "warn": "33",
    "bar": "34",
}


class Terminal:
    """One stream. What is written to it must be `safe` already; only our own escape codes are added."""

    def __init__(self, stream: TextIO, display: Display | None = None) -> None:
        display = display_of() if display is None else display
        self._stream = stream
        self._columns = display.columns
        self.is_tty = stream.isatty()
        self.rewrites = self.is_tty and not display.dumb
        """Whether the status line can be shown at all."""
        self._color = self.is_tty and display.color
        self._status = False
        self.held = False
        """Somebody is typing: no status line until that is over."""
        self.asks = False
        """Questions are put here, so that nothing else need show them."""

    @property
    def columns(self) -> int:
        """Asked anew each time: windows are resized."""
        if self._columns is not None:
            return self._columns
        if not self.is_tty:
            return COLUMNS_WITHOUT_TERMINAL
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or COLUMNS_WITHOUT_TERMINAL
        except OSError:  # a terminal that is not one to the kernel (a test's, an editor's)
            return COLUMNS_WITHOUT_TERMINAL

    def lines(self, lines: Iterable[Line]) -> None:
        for spans in lines:
            self.write("".join(self._styled(span.text, span.style) for span in spans).rstrip() + "\n")
        self.flush()

    def write(self, text: str) -> None:
        self.clear_status()
        self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def status(self, text: str) -> None:
        """Replaces the last line until something else is written."""
        if self.rewrites and not self.held:
            self._stream.write(f"\r\x1b[2K{self._styled(clip(text, self.columns - 1), 'dim')}")
            self._stream.flush()
            self._status = True

    def clear_status(self) -> None:
        if self._status:
            self._stream.write("\r\x1b[2K")
            self._status = False

    def _styled(self, text: str, style: Style) -> str:
        code = _CODES[style]
        return f"\x1b[{code}m{text}\x1b[0m" if code and self._color and text else text
