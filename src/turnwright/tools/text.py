"""Files as text: encodings, byte-order marks and line ends, all of which survive an edit.

A `Lines` view shows every line end as a newline, as the model does, and puts replacements back into the original so
that not one byte changes outside of them.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from typing import Literal, TypeAlias

import msgspec

from turnwright.schema.errors import ToolFailure

Encoding: TypeAlias = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "latin-1"]
LineEnd: TypeAlias = Literal["\n", "\r\n", "\r"]

_BOMS: tuple[tuple[bytes, Encoding], ...] = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LINE_END = re.compile(r"\r\n?|\n")
_ODD_CONTROLS = bytes(set(range(0x20)) - set(b"\t\n\r\f\b\x1b")) + b"\x7f"

IMAGE_TYPES = {
    "PNG image": "image/png",
    "JPEG image": "image/jpeg",
    "GIF image": "image/gif",
    "WebP image": "image/webp",
}
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF87a", "GIF image"),
    (b"GIF89a", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\x00", "xz archive"),
    (b"(\xb5/\xfd", "Zstandard archive"),
    (b"7z\xbc\xaf'\x1c", "7-Zip archive"),
    (b"\x7fELF", "ELF program or library"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program or library"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
    (b"MZ", "Windows program or library"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"\x00asm", "WebAssembly module"),
    (b"wOFF", "font"),
    (b"wOF2", "font"),
    (b"OggS", "Ogg media"),
    (b"fLaC", "FLAC audio"),
    (b"ID3", "MP3 audio"),
    (b"BM", "BMP image"),
    (b"II*\x00", "TIFF image"),
    (b"MM\x00*", "TIFF image"),
)


class Decoded(msgspec.Struct, frozen=True):
    """A text file. `text` has its own line ends and no byte-order mark."""

    text: str
    encoding: Encoding = "utf-8"


class Binary(msgspec.Struct, frozen=True):
    """Bytes that are not text, and what they look like."""

    kind: str


def decode(data: bytes) -> Decoded | Binary:
    for mark, encoding in _BOMS:
        if data.startswith(mark) and not data.startswith(codecs.BOM_UTF32_LE):
            try:
                return Decoded(data[len(mark) :].decode(_codec(encoding)), encoding)
            except UnicodeDecodeError:
                return Binary(kind_of(data))
    if b"\0" in data:
        return Binary(kind_of(data))
    try:
        return Decoded(data.decode())
    except UnicodeDecodeError:
        odd = len(data) - len(data.translate(None, _ODD_CONTROLS))
        known = kind_of(data)
        return (
            Binary(known)
            if odd * 20 > len(data) or known != UNKNOWN_BINARY
            else Decoded(data.decode("latin-1"), "latin-1")
        )


UNKNOWN_BINARY = "binary data of no known type"


def kind_of(data: bytes) -> str:
    """What bytes are, by their first few."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WebP image"
    if data[4:8] == b"ftyp":
        return "MP4 or HEIF media"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), UNKNOWN_BINARY)


def encode(text: str, encoding: Encoding, path: str) -> bytes:
    """The bytes of a file that keeps its encoding and mark."""
    mark = next((mark for mark, name in _BOMS if name == encoding), b"")
    try:
        return mark + text.encode(_codec(encoding))
    except UnicodeEncodeError as bad:
        odd = text[bad.start]
        raise ToolFailure(
            f"{path} is encoded as {encoding}, which cannot hold {odd!r} (U+{ord(odd):04X}).",
            remedy="Leave that character out.",
        ) from None


def line_end_of(text: str) -> LineEnd:
    """The line end most lines have; the first seen where two are as frequent, and a newline where there is none."""
    counts: dict[str, int] = {}
    crlf, cr, lf = text.count("\r\n"), text.count("\r"), text.count("\n")
    if not cr:
        return "\n"
    counts = {"\r\n": crlf, "\r": cr - crlf, "\n": lf - crlf}
    most = max(counts.values())
    first = _LINE_END.search(text)
    ends: list[LineEnd] = ["\r\n", "\r", "\n"]
    winners = [end for end in ends if counts[end] == most]
    return next((end for end in winners if first is not None and first[0] == end), winners[0])


def with_newlines(text: str) -> str:
    """Every line end as a newline."""
    return text if "\r" not in text else text.replace("\r\n", "\n").replace("\r", "\n")


class Replacement(msgspec.Struct, frozen=True):
    """`new` in place of what stands from `start` to `end` of the newline view."""

    start: int
    end: int
    new: str


class Lines:
    """A text whose line ends all read as newlines, and the way back."""

    def __init__(self, original: str) -> None:
        self.original = original
        self.text = with_newlines(original)
        self._pairs: list[int] = []
        if "\r\n" in original:
            # Where, in the newline view, each two-character line end stands.
            self._pairs = [found.start() - n for n, found in enumerate(re.finditer("\r\n", original))]

    def replaced(self, replacements: list[Replacement]) -> str:
        """The original with the replacements (ascending, disjoint) made. New lines end as most lines do."""
        line_end = line_end_of(self.original)
        pieces: list[str] = []
        at = 0
        for replacement in replacements:
            start, end, new = _narrowed(self.text, replacement)
            pieces.append(self.original[at : self._back(start)])
            pieces.append(new if line_end == "\n" else new.replace("\n", line_end))
            at = self._back(end)
        return "".join([*pieces, self.original[at:]])

    def line_of(self, offset: int) -> int:
        """The number, from 1, of the line an offset of the newline view is in."""
        return self.text.count("\n", 0, offset) + 1

    def _back(self, offset: int) -> int:
        return offset + bisect_left(self._pairs, offset)


def _narrowed(text: str, replacement: Replacement) -> tuple[int, int, str]:
    """Without the lines at both ends that stay as they are, so that they keep their own line ends."""
    start, end, new = replacement.start, replacement.end, replacement.new
    old = text[start:end]
    same = 0
    while (newline := old.find("\n", same)) >= 0 and new.startswith(old[same : newline + 1], same):
        same = newline + 1
    old, new, start = old[same:], new[same:], start + same
    while old and new:
        newline = old.rfind("\n", 0, len(old) - 1)
        last = old[newline + 1 :]
        if newline < 0 or not new.endswith("\n" + last):
            break
        old, new, end = old[: newline + 1], new[: len(new) - len(last)], end - len(last)
    return start, end, new


def _codec(encoding: Encoding) -> str:
    return "utf-8" if encoding == "utf-8-sig" else encoding
