"""Text for people: styled lines without escape codes, safe against what untrusted text may carry, and plain units."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import msgspec

Style: TypeAlias = Literal[
    "plain",
    "dim",
    "heading",
    "user",
    "runtime",
    "assistant",
    "reasoning",
    "tool",
    "output",
    "good",
    "bad",
    "warn",
    "bar",
]


class Span(msgspec.Struct, frozen=True):
    """A piece of a line under a style's name. What a style looks like is the face's to say."""

    text: str
    style: Style = "plain"


Line: TypeAlias = tuple[Span, ...]


def line(*spans: Span | str) -> Line:
    return tuple(Span(span) if isinstance(span, str) else span for span in spans)


def plain(lines: Iterable[Line]) -> str:
    """The lines without their styles, each ended by a newline."""
    return "".join("".join(span.text for span in spans).rstrip() + "\n" for spans in lines)


# Besides control characters (a terminal obeys them): bidirectional controls, invisible characters, tag characters and
# supplementary variation selectors, with which text can be made to read otherwise than it is. Lone surrogates cannot
# be encoded.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e01ef]"
)


def safe(text: str) -> str:
    """The same text with everything visible that a terminal would obey or hide. Newlines and tabs stay."""
    return _UNSAFE.sub(_shown, text.replace("\r\n", "\n"))


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"


def one_line(text: str) -> str:
    """Safe, and on one line."""
    return " ".join(safe(text).split())


def width(text: str) -> int:
    """Terminal columns."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def clip(text: str, columns: int) -> str:
    """At most `columns` wide; what is cut is marked. Costs no more than what is shown."""
    text = text[: 4 * columns + 4]
    if width(text) <= columns:
        return text
    used = 0
    for index, char in enumerate(text):
        used += _columns(char)
        if used > columns - 1:
            return text[:index] + "…"
    return text


def pad(text: str, columns: int) -> str:
    text = clip(text, columns)
    return text + " " * (columns - width(text))


def right(text: str, columns: int) -> str:
    text = clip(text, columns)
    return " " * (columns - width(text)) + text


def excerpt(text: str, max_chars: int, max_lines: int = 1_000_000) -> str:
    """Head and tail of a long text, with a line between them that says how much is left out."""
    lines = text.split("\n")
    if len(lines) > max_lines:
        head, tail = (max_lines + 1) // 2, max_lines // 2
        cut = len(lines) - head - tail
        lines = [*lines[:head], f"… {cut:,} lines left out …", *(lines[-tail:] if tail else [])]
        text = "\n".join(lines)
    if len(text) <= max_chars:
        return text
    head, tail = (max_chars + 1) // 2, max_chars // 2
    cut = len(text) - head - tail
    return f"{text[:head]}\n… {cut:,} characters left out …\n{text[-tail:] if tail else ''}"


def duration(ms: float | None) -> str:
    if ms is None:
        return "?"
    if ms < 999.5:
        return f"{ms:.0f}ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f}s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    if minutes < 60:
        return f"{minutes}m{seconds:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"


def count(number: int | None) -> str:
    """Tokens and the like; unknown is `?`, never 0."""
    if number is None:
        return "?"
    for limit, divisor, unit in ((1_000, 1, ""), (999_950, 1_000, "k"), (999_950_000, 1_000_000, "M")):
        if number < limit:
            return f"{number / divisor:.1f}{unit}" if unit else str(number)
    return f"{number / 1e9:.1f}G"


def cost(usd: float | None) -> str:
    """Unknown is `$?`, never 0."""
    if usd is None:
        return "$?"
    if 0 < usd < 0.0001:
        return "<$0.0001"
    return f"${usd:.4f}" if usd < 1 else f"${usd:.2f}"


def size(size_bytes: int) -> str:
    if size_bytes < 1024:
        return f"{size_bytes} bytes"
    for limit, divisor, unit in ((1024**2, 1024, "KiB"), (1024**3, 1024**2, "MiB")):
        if size_bytes < limit:
            return f"{size_bytes / divisor:.1f} {unit}"
    return f"{size_bytes / 1024**3:.1f} GiB"


_LATEST_MS = 253_402_300_799_000


def when(at_ms: int) -> str:
    """UTC, to the second: a view knows no place."""
    return datetime.fromtimestamp(min(max(at_ms, 0), _LATEST_MS) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
