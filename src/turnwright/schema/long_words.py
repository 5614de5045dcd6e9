"""Words that are long enough to be a secret, or to hold one. Pure; every write passes here, and nearly none holds a
key: this looks at each byte once, where asking for forty prefixes would look forty times."""

from __future__ import annotations

from typing import NamedTuple


class Letters(NamedTuple):
    """What a word is made of, and from how many bytes on it is a long one."""

    table: bytes
    run: bytes


def _letters(marks: str, length: int) -> Letters:
    table = bytes(97 if chr(c).isascii() and (chr(c).isalnum() or chr(c) in marks) else 32 for c in range(256))
    return Letters(table, b"a" * length)


KEYS = _letters("_.-", 16)
ENCODED = _letters("+/_-", 22)
"""Of base64: sixteen bytes, the shortest key that is known by its shape."""
EITHER = _letters("+/_.-", 16)
"""Each of the words of one or the other kind lies within one of these."""


def words_in(raw: bytes, letters: Letters) -> set[bytes]:
    table, run = letters
    flat = raw.translate(table)
    words: set[bytes] = set()
    begins = flat.find(run)
    while begins >= 0:
        ends = flat.find(b" ", begins)
        if ends < 0:
            words.add(raw[begins:])
            break
        words.add(raw[begins:ends])
        begins = flat.find(run, ends)
    return words
