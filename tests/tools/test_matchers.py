"""The edit cascade: what each matcher forgives, what it puts in, and that none of them guesses."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwright.schema.errors import ToolFailure
from turnwright.tools.matchers import MATCHERS, replace

MATCHED = [
    # matcher, before, old, new, after
    ("exact", "a b c\n", "b", "B", "a B c\n"),
    ("exact", "one\ntwo\nthree\n", "two\n", "", "one\nthree\n"),
    ("exact", "no end", "end", "newline", "no newline"),
    ("line ends trimmed", "one  \ntwo\t\nthree\n", "one\ntwo\n", "1\n2\n", "1\n2\nthree\n"),
    ("line ends trimmed", "a\nlast", "a \nlast\n", "b\nlast\n", "b\nlast"),
    ("indentation shifted", "  if x:\n    y()\n", "if x:\n  y()\n", "if z:\n  y()\n", "  if z:\n    y()\n"),
    ("indentation shifted", "if x:\n  y()\n", "    if x:\n      y()", "    if z:\n\n      y()", "if z:\n\n  y()\n"),
    ("indentation shifted", "\t\tx = 1\n\t\ty = 2\n", "x = 1\ny = 2\n", "x = 3\n", "\t\tx = 3\n"),
    (
        "lines trimmed",
        "\tif x:\n\t\ty()\n\telse:\n\t\tz()\n",
        "    if x:\n        y()\n    else:\n        z()\n",
        "    if x:\n        w()\n",
        "\tif x:\n\t\tw()\n",
    ),
    ("lines trimmed", "a\n   b\nc\n", " a\n b\n  c\n", "x\n  c\n", "x\n  c\n"),
    ("whitespace normalised", "x  =   f(a,\tb)\n", "x = f(a, b)\n", "x = g(a)\n", "x = g(a)\n"),
    ("punctuation normalised", "say “hi” – now\n", 'say "hi" - now\n', "say bye\n", "say bye\n"),
    ("escapes undone", 'print("a")\n\tx\n', 'print(\\"a\\")\\n\\tx', 'print(\\"b\\")\\n\\ty', 'print("b")\n\ty\n'),
    ("blank lines trimmed", "a\n    b\nc\n", "\n  b\n", "  B\n", "a\n    B\nc\n"),
    ("blank lines trimmed", "a\nb\nc\n", "\nb\n\n", "\nB\n\n", "a\nB\nc\n"),
    (
        "first and last line",
        "def f():\n    total = count + 1  # the sum\n    return total\n",
        "def f():\n    total = count + 1  # the sun\n    return total\n",
        "def f():\n    return count + 1\n",
        "def f():\n    return count + 1\n",
    ),
]


@pytest.mark.parametrize(("matcher", "before", "old", "new", "after"), MATCHED)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_is_forgiven(matcher: str, before: str, old: str, new: str, after: str, end: str) -> None:
    edited = replace(before.replace("\n", end), old, new, path="f")
    assert (edited.matcher, edited.text) == (matcher, after.replace("\n", end))


REFUSED = [
    ("x\ny\nx\n", "x", "z", "f: the text to replace is found 2 times (match: exact), at lines 1, 3."),
    ("aaa", "aa", "b", "found 2 times (match: exact), at lines 1, 1."),
    ("  x\n x\n", "x \n", "z\n", "found 2 times (match: indentation shifted), at lines 1, 2."),
    ("x" * 3, "", "z", "the text to replace is empty"),
    ("x", "x", "x", "the old and the new text are the same"),
    ("a\n", "b", "c", "Not even its first line 'b' is; read the file"),
    ("a\nb\nc\n", "a\nb\nd\n", "e", "It agrees from line 1 on, until at line 3 the file has 'c' and not 'd'."),
    ("a\nb\n", "a\nb\nc\n", "e", "until at line 3 the file has '' and not 'c'"),
    ("s\nabcdefgh\ne\n", "s\nzzzzzzzz\ne\n", "x", "until at line 2 the file has 'abcdefgh'"),
    ("s\naaaaaaaaaa\ne\ns\naaaaaaaaab\ne\n", "s\naaaaaaaaac\ne\n", "x", "found 2 times (match: first and last line)"),
    ("a\n\n\nb\n", "\n", "x", "found 4 times (match: exact)"),
]


@pytest.mark.parametrize(("text", "old", "new", "said"), REFUSED)
def test_what_is_refused(text: str, old: str, new: str, said: str) -> None:
    with pytest.raises(ToolFailure) as refused:
        replace(text, old, new, path="f")
    assert said in str(refused.value)


def test_every_place() -> None:
    assert replace("aXaXa", "X", "-", every=True, path="f").text == "a-a-a"
    assert replace("  x = 1\n  y\n    x = 1\n", "x = 1\n", "x = 2\n", every=True, whole_lines=True, path="f").text == (
        "  x = 2\n  y\n    x = 2\n"
    )
    assert replace("aaa", "aa", "b", every=True, path="f").text == "ba"


def test_whole_lines_never_match_a_part() -> None:
    text = "xTwo\nTwo\n"
    assert replace(text, "Two\n", "2\n", whole_lines=True, path="f").text == "xTwo\n2\n"
    with pytest.raises(ToolFailure, match="not in the file"):
        replace("xTwo\n", "Two\n", "2\n", whole_lines=True, path="f")


def test_untouched_lines_keep_their_ends() -> None:
    text = "one\r\ntwo\rthree\nfour\r\n"
    assert replace(text, "two\nthree\n", "two\nTHREE\n", path="f").text == "one\r\ntwo\rTHREE\r\nfour\r\n"
    assert replace(text, "two\nthree\n", "2\nthree\n", path="f").text == "one\r\n2\r\nthree\nfour\r\n"


LINES = st.text("ab \t\n\r", max_size=40)


@given(LINES, LINES, LINES, st.booleans())
def test_only_the_place_changes(head: str, old: str, tail: str, every: bool) -> None:
    """Whatever matched, the result is the file with one span replaced, and everything else byte for byte."""
    text = head + old + tail
    try:
        edited = replace(text, old, "<NEW>", path="f")
    except ToolFailure:
        return
    before, _, after = edited.text.partition("<NEW>")
    assert text.startswith(before.rstrip(" \t")) or not before.strip()
    assert text.endswith(after)


@given(st.text("ab\n ", max_size=60), st.text("ab\n \\", min_size=1, max_size=20), st.text("ab\n", max_size=10))
def test_no_input_is_a_fault(text: str, old: str, new: str) -> None:
    for every in (False, True):
        try:
            assert replace(text, old, new, every=every, path="f").matcher in {name for name, _ in MATCHERS}
        except ToolFailure:
            pass


def test_hard_inputs_take_no_time() -> None:
    started = time.monotonic()
    for text, old in [
        ("a\n" * 200_000, "a\n" * 1_000 + "b"),
        (" a\n" * 100_000, "a\n" * 5_000 + "a"),
        ("s\nx\ne\n" * 50_000, "s\ny\ne\n"),
        ("a" * 2_000_000, "a" * 1_000 + "b"),
    ]:
        with pytest.raises(ToolFailure):
            replace(text, old, "new", path="f")
    assert time.monotonic() - started < 5
