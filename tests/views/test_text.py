from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwright.views.arguments import brief
from turnwright.views.text import (
    clip,
    cost,
    count,
    duration,
    excerpt,
    line,
    one_line,
    pad,
    plain,
    right,
    safe,
    size,
    when,
    width,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext\n", "plain\n\ttext\n"),
        ("a\r\nb\rc", "a\nb␍c"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x9b2J\x7f\x00", "<U+009B>2J␡␀"),
        ("admin\u202enimda\u2066", "admin<U+202E>nimda<U+2066>"),
        ("\U000e0041hidden\ud800", "<U+E0041>hidden<U+D800>"),
        ("naïve 日本 👩‍👩‍👧", "naïve 日本 👩‍👩‍👧"),
    ],
)
def test_safe_shows_what_a_terminal_would_obey_or_hide(text: str, shown: str) -> None:
    assert safe(text) == shown


@settings(deadline=None)
@given(st.text())
def test_safe_text_has_no_control_characters_and_is_stable(text: str) -> None:
    shown = safe(text)
    assert not any((ord(char) < 0x20 and char not in "\n\t") or 0x7F <= ord(char) < 0xA0 for char in shown)
    assert safe(shown) == shown
    assert "\n" not in one_line(text)
    shown.encode()


@settings(deadline=None)
@given(st.text(), st.integers(1, 40))
def test_clipped_and_padded_text_has_its_columns(text: str, columns: int) -> None:
    assert width(clip(one_line(text), columns)) <= columns
    assert width(pad(one_line(text), columns)) == columns
    assert width(right(one_line(text), columns)) == columns


@pytest.mark.parametrize(
    ("text", "columns", "shown"), [("short", 5, "short"), ("longer", 5, "long…"), ("日本語", 5, "日本…"), ("", 1, "")]
)
def test_clip(text: str, columns: int, shown: str) -> None:
    assert clip(text, columns) == shown


@pytest.mark.parametrize(
    ("max_chars", "max_lines", "shown"),
    [
        (100, 100, "1\n2\n3\n4\n5"),
        (100, 3, "1\n2\n… 2 lines left out …\n5"),
        (100, 1, "1\n… 4 lines left out …"),
        (4, 100, "1\n\n… 5 characters left out …\n\n5"),
    ],
)
def test_excerpt_says_what_it_leaves_out(max_chars: int, max_lines: int, shown: str) -> None:
    assert excerpt("1\n2\n3\n4\n5", max_chars, max_lines) == shown


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (duration(None), "?"),
        (duration(0), "0ms"),
        (duration(999.6), "1.0s"),
        (duration(59_960), "1m00s"),
        (duration(3_599_600), "1h00m"),
        (count(None), "?"),
        (count(0), "0"),
        (count(999), "999"),
        (count(999_949), "999.9k"),
        (count(1_250_000), "1.2M"),
        (count(2 * 10**9), "2.0G"),
        (cost(None), "$?"),
        (cost(0.0), "$0.0000"),
        (cost(0.00001), "<$0.0001"),
        (cost(12.345), "$12.35"),
        (size(10), "10 bytes"),
        (size(2048), "2.0 KiB"),
        (size(3 * 1024**2), "3.0 MiB"),
        (size(2 * 1024**3), "2.0 GiB"),
        (when(0), "1970-01-01 00:00:00Z"),
        (when(10**30), "9999-12-31 23:59:59Z"),
    ],
)
def test_units(shown: str, expected: str) -> None:
    assert shown == expected


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("{}", ""),
        ('{"command": "ls\\n -l"}', "ls -l"),
        ('{"path": "a", "lines": [1, 2]}', "path=a lines=[1,2]"),
        ('{"path": ', '{"path":'),
        ("[" * 100_000, "[" * 39 + "…"),
        ('{"a":' + "[" * 5_000 + "]" * 5_000 + "}", '{"a":' + "[" * 34 + "…"),
        ('{"text": "\\u001b[31mred"}', "␛[31mred"),
        ('{"text": "%s"}' % ("x" * 50_000), "x" * 39 + "…"),
    ],
)
def test_arguments_in_brief(arguments: str, shown: str) -> None:
    assert brief(arguments, 40) == shown


def test_plain_drops_styles_and_trailing_space() -> None:
    assert plain([line("a  "), line("b", "c "), line()]) == "a\nbc\n\n"
