"""Encodings and line ends, and output made fit to be read."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwright.tools.shorten import Shortened, clip, plain, shorten, visible
from turnwright.tools.text import Binary, Decoded, Lines, Replacement, decode, encode, line_end_of

DECODED = [
    (b"", Decoded("")),
    ("é\n".encode(), Decoded("é\n")),
    (b"\xef\xbb\xbfx", Decoded("x", "utf-8-sig")),
    ("\ufeffx".encode("utf-16-le"), Decoded("x", "utf-16-le")),
    ("\ufeffx".encode("utf-16-be"), Decoded("x", "utf-16-be")),
    (b"caf\xe9\n", Decoded("café\n", "latin-1")),
    (b"\x1b[31mred\n", Decoded("\x1b[31mred\n")),
    (b"\x89PNG\r\n\x1a\n\0\0", Binary("PNG image")),
    (b"RIFF\0\0\0\0WEBP", Binary("WebP image")),
    (b"%PDF-1.7\n\xe2\xe3", Binary("PDF document")),
    (b"PK\x03\x04\0", Binary("ZIP archive")),
    (b"\x1f\x8b\x08\xff", Binary("gzip archive")),
    (b"SQLite format 3\0", Binary("SQLite database")),
    (b"\0\1\2", Binary("binary data of no known type")),
    (b"\xff\x01\x02\x03", Binary("binary data of no known type")),
    (b"\xff\xfe\0", Binary("binary data of no known type")),
]


@pytest.mark.parametrize(("data", "expected"), DECODED)
def test_decode(data: bytes, expected: Decoded | Binary) -> None:
    assert decode(data) == expected
    if isinstance(expected, Decoded):
        assert encode(expected.text, expected.encoding, "f") == data


@pytest.mark.parametrize(
    ("text", "end"),
    [("", "\n"), ("a\n", "\n"), ("a\r\n", "\r\n"), ("a\rb\r", "\r"), ("a\r\nb\n", "\r\n"), ("a\nb\r\n", "\n"),
     ("a\nb\r\nc\r\n", "\r\n")],
)  # fmt: skip
def test_line_end_of(text: str, end: str) -> None:
    assert line_end_of(text) == end


@given(st.lists(st.tuples(st.text("ab", max_size=3), st.sampled_from(["\n", "\r\n", "\r"])), max_size=8), st.data())
def test_only_what_is_replaced_changes(lines: list[tuple[str, str]], data: st.DataObject) -> None:
    """Replacing a run of lines by itself changes nothing; by another line, only that run."""
    original = "".join(text + end for text, end in lines)
    view = Lines(original)
    starts = [0] + [at + 1 for at, character in enumerate(view.text) if character == "\n"]
    first = data.draw(st.integers(0, len(starts) - 1))
    last = data.draw(st.integers(first, len(starts) - 1))
    start, end = starts[first], starts[last]
    assert view.replaced([Replacement(start, end, view.text[start:end])]) == original
    changed = view.replaced([Replacement(start, end, "NEW\n")])
    head, _, tail = changed.partition("NEW")
    assert original.startswith(head)
    assert tail.startswith(line_end_of(original)) and original.endswith(tail.removeprefix(line_end_of(original)))


PLAIN = [
    ("plain\ttext\n", "plain\ttext\n"),
    ("\x1b[1;31mred\x1b[0m \x1b[2K\x1b[?25l", "red "),
    ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b\\", "ab"),
    ("\x1bPq#0\x1b\\x\x1b(Bx\x1b=\x1bMx", "xxx"),
    ("50%\r100%\r\ndone", "50%\n100%\ndone"),
    ("a\x07b\x00c\x7f\x85", "a␇b␀c␡\ufffd"),
    ("\x1b]0;never ended\nnext", "␛]0;never ended\nnext"),
    ("\x9b31mx", "x"),
]


@pytest.mark.parametrize(("text", "expected"), PLAIN)
def test_plain(text: str, expected: str) -> None:
    assert plain(text) == expected


@given(st.text(st.sampled_from("\x1b[]P;0m\x07\\\x9b\r\na"), max_size=200))
def test_nothing_that_steers_a_terminal_is_left(text: str) -> None:
    for said in (plain(text), visible(text)):
        assert not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 for c in said)


def test_floods_of_unfinished_sequences_take_no_time() -> None:
    started = time.monotonic()
    for piece in ("\x1b]", "\x1b[", "\x1b]0;aaaa", "\x1b[0;", "\x1bP\x1b", "\x9b;"):
        plain(piece * 300_000)
    plain("\x1b]" + "a" * 2_000_000)
    plain("\x1b[" + "0" * 2_000_000)
    assert time.monotonic() - started < 5


def test_shorten_keeps_both_ends() -> None:
    text = "".join(f"line {n}\n" for n in range(10_000))
    short = shorten(text, lines_max=6, where="/kept/here")
    assert short.original_bytes == len(text)
    assert short.text.startswith("line 0\nline 1\nline 2\n[... ")
    assert "; all of it is in /kept/here ...]\n" in short.text
    assert short.text.endswith("\nline 9997\nline 9998\nline 9999\n")
    assert shorten("x\n" * 6, lines_max=6) == Shortened("x\n" * 6)


@given(st.text("aé→\n", max_size=400), st.integers(40, 200), st.integers(2, 20))
def test_shorten_holds_its_limits(text: str, size: int, lines: int) -> None:
    short = shorten(text, bytes_max=size, lines_max=lines)
    kept = short.text
    if short.original_bytes is not None:
        assert short.original_bytes == len(text.encode())
        kept = "".join(line for line in kept.splitlines(keepends=True) if not line.startswith("[..."))
    assert len(kept.encode()) <= size + 2
    assert kept.count("\n") <= lines + 2


def test_clip() -> None:
    assert clip("x" * 10, 10) == "x" * 10
    assert clip("x" * 11, 10) == "x" * 10 + " [... line of 11 characters, cut]"
