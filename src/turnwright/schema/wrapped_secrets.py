"""Secrets within what was encoded: base64, hex, compressed, in two-byte characters. Pure, and each byte of a word is
looked at a few times, whatever it holds."""

from __future__ import annotations

import binascii
import re
import zlib
from collections.abc import Callable, Iterator

WRAPPED_BYTES_MIN = 60
"""Lines as long as this may be pieces of one word: `base64` and MIME break theirs at 64 or 76."""
INFLATED_BYTES_MAX = 1024 * 1024

_LINES = r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{60,}+(?:(?:\\r)?(?:\\n|\r?\n)[A-Za-z0-9+/_-]++)++"
_BREAK = r"(?:\\r)?\\n|\r?\n"
_HEX = re.compile(rb"[0-9a-fA-F]{32,}+")
_GZIP = b"\x1f\x8b\x08"


def broken_words(text: str) -> Iterator[tuple[str, bytes]]:
    """Words that go on over several lines: as they stand in the text, and in one piece."""
    for found in re.finditer(_LINES, text):
        yield found[0], re.sub(_BREAK, "", found[0]).encode("ascii")


def wraps(word: bytes, opens: Callable[[bytes], bool]) -> bool:
    """Whether something that `opens` a door is in there. A word of one case alone is no base64 of a key."""
    lowered = word.lower()
    if any(opens(binascii.unhexlify(each[: len(each) & ~1])) for each in _HEX.findall(word)):
        return True
    if word in (lowered, word.upper()):
        return False
    plain = word.translate(_STANDARD)
    readings = [_decoded(plain[shift:]) for shift in range(4)]
    return opens(b" ".join(readings)) or any(_holds(data, opens) for data in readings)


_STANDARD = bytes.maketrans(b"-_", b"+/")


def _decoded(word: bytes) -> bytes:
    return binascii.a2b_base64(word[: len(word) & ~3])


def _holds(data: bytes, opens: Callable[[bytes], bool]) -> bool:
    """What is no plain text: in two-byte characters, or compressed."""
    if b"\0" in data and opens(data.replace(b"\0", b"")):
        return True
    begins = data.find(_GZIP)
    return begins >= 0 and opens(_inflated(data[begins:]))


def _inflated(data: bytes) -> bytes:
    """As far as it goes."""
    try:
        return zlib.decompressobj(wbits=31).decompress(data, INFLATED_BYTES_MAX)
    except zlib.error:
        return b""
