"""Text made fit for a model and a terminal: no control sequences, and no longer than the reader can bear."""

from __future__ import annotations

import re

import msgspec

LINES_MAX = 2_000
BYTES_MAX = 50 * 1024

_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
_SURROGATE = r"[\ud800-\udfff]"
"""Bytes of a file's name that are no UTF-8, or half a pair: neither a journal nor a provider takes them."""
# Possessive and bounded by the next escape, so a flood of unfinished sequences costs linear time. Compiled on use.
_SEQUENCE = (
    r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|[\]PX^_][^\x07\x1b]*+(?:\x07|\x1b\\)|[ -/]++[0-~]|[0-Z\\^-~])"
    r"|\x9b[0-?]*+[ -/]*+[@-~]"
)
_PICTURES = {code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)}
_PICTURES |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)


class Shortened(msgspec.Struct, frozen=True):
    """`text` is what is left; `original_bytes` is the size it had, None where nothing was taken away."""

    text: str
    original_bytes: int | None = None


def plain(text: str) -> str:
    """Escape sequences go, other controls become their pictures (␛, ␇), line ends become newlines."""
    if not _has_controls(text):
        return text
    return _pictured(re.sub(_SEQUENCE, "", text.replace("\r\n", "\n")).replace("\r", "\n"))


def visible(text: str) -> str:
    """Every control but tab and newline as its picture: for files, where nothing may vanish unseen."""
    return _pictured(text) if _has_controls(text) else text


def _pictured(text: str) -> str:
    return re.sub(_SURROGATE, "\ufffd", text.translate(_PICTURES))


def _has_controls(text: str) -> bool:
    """Nearly all output is printable but for newlines and tabs, and that is ten times faster to see than by pattern."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return False
    return re.search(_CONTROL, text) is not None


def shorten(
    text: str,
    *,
    lines_max: int = LINES_MAX,
    bytes_max: int = BYTES_MAX,
    where: str = "",
    total_bytes: int | None = None,
) -> Shortened:
    """Keep the head and the tail within both limits and say in between what was left out.

    `where` tells the model where the rest can be read; `total_bytes` is the true size where `text` is itself only
    what was kept of something larger.
    """
    size = _size(text) if total_bytes is None else total_bytes
    if size <= bytes_max and text.count("\n") <= lines_max:
        return Shortened(text)
    head, tail = _ends(text, lines_max // 2, bytes_max // 2)
    left_out = size - _size(head) - _size(tail)
    if left_out <= 0:
        return Shortened(text)
    notice = f"[... {left_out:,} of {size:,} bytes left out" + (f"; all of it is in {where}" if where else "") + " ...]"
    return Shortened(f"{head.rstrip(chr(10))}\n{notice}\n{tail.lstrip(chr(10))}", size)


def clip(line: str, limit: int = 2_000) -> str:
    """One line, cut with a notice where it is too long to be worth reading."""
    return line if len(line) <= limit else f"{line[:limit]} [... line of {len(line):,} characters, cut]"


def _ends(text: str, lines: int, size: int) -> tuple[str, str]:
    head, tail = text[:size], text[-size:]
    cut = _nth_newline(head, lines)
    head = head if cut is None else head[: cut + 1]
    cut = _nth_newline(tail[::-1], lines + 1)
    tail = tail if cut is None else tail[len(tail) - cut :]
    return _within(head, size, keep_start=True), _within(tail, size, keep_start=False)


def _nth_newline(text: str, count: int) -> int | None:
    at = -1
    for _ in range(count):
        at = text.find("\n", at + 1)
        if at < 0:
            return None
    return at


def _within(text: str, size: int, *, keep_start: bool) -> str:
    """Cut to a size in bytes without splitting a character, at a line end where one is near."""
    if _size(text) > size:
        raw = text.encode("utf-8", "surrogatepass")
        text = (raw[:size] if keep_start else raw[-size:]).decode("utf-8", "ignore")
    newline = text.rfind("\n") if keep_start else text.find("\n")
    spare = len(text) // 8
    if keep_start and newline >= len(text) - spare:
        return text[: newline + 1]
    if not keep_start and 0 <= newline <= spare:
        return text[newline + 1 :]
    return text


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
