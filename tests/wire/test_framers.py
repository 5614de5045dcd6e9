"""Lines of JSON, and arrays read element by element."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwright.schema.frames import Frame
from turnwright.wire.json_array import ArrayFramer
from turnwright.wire.ndjson import LineFramer


def cut(body: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(body), *(at for at in cuts if at < len(body))})
    return [body[start:end] for start, end in itertools.pairwise(places)]


def lines_of(*chunks: bytes, line_bytes_max: int = 1_000) -> tuple[list[bytes], LineFramer]:
    framer = LineFramer(line_bytes_max)
    frames = [frame for chunk in chunks for frame in framer.feed(chunk)] + framer.end()
    return [frame.data for frame in frames], framer


def elements_of(*chunks: bytes, element_bytes_max: int = 1_000) -> tuple[list[bytes], ArrayFramer]:
    framer = ArrayFramer(element_bytes_max)
    frames = [frame for chunk in chunks for frame in framer.feed(chunk)] + framer.end()
    return [frame.data for frame in frames], framer


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
        (b'{"a":1}\r\n\r\n {"b":2} \r\n', [b'{"a":1}', b'{"b":2}']),
        (b'{"a":1}\n{"b"', [b'{"a":1}', b'{"b"']),
        (b"\n\n", []),
        (b'{"a":"\xff"}\n', ['{"a":"\ufffd"}'.encode()]),
    ],
)
def test_lines(body: bytes, lines: list[bytes]) -> None:
    assert lines_of(body)[0] == lines
    assert lines_of(*(body[at : at + 1] for at in range(len(body))))[0] == lines


def test_a_line_is_capped() -> None:
    for chunks in ([b"{}\n" + b"x" * 50], [b"{}\n", *[b"x"] * 50], [b"{}\n" + b"x" * 50 + b"\n{}\n"]):
        lines, framer = lines_of(*chunks, line_bytes_max=40)
        assert (lines, framer.too_large) == ([b"{}"], True)
        assert framer.feed(b"{}\n") == []


VALUES: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab"\\[]{},é', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='k"\\{', max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3)), st.lists(st.integers(0, 400)), st.booleans())
def test_elements_come_whole_however_they_are_cut(
    values: list[dict[str, object]], cuts: list[int], tight: bool
) -> None:
    body = json.dumps(values, ensure_ascii=False, indent=None if tight else 2).encode()
    found, framer = elements_of(*cut(body, cuts), element_bytes_max=100_000)
    assert [json.loads(one) for one in found] == values
    assert not framer.too_large


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)))
def test_any_bytes_are_cut_without_an_exception(body: bytes, cuts: list[int]) -> None:
    assert elements_of(*cut(body, cuts))[0] == elements_of(body)[0]
    assert lines_of(*cut(body, cuts))[0] == lines_of(body)[0]


def test_an_element_without_its_end_is_no_element() -> None:
    assert elements_of(b'[{"a":1},\n{"b":')[0] == [b'{"a":1}']


def test_an_element_is_capped() -> None:
    found, framer = elements_of(b'[{"a":1},{"b":"', b"x" * 100, b"x" * 100, element_bytes_max=60)
    assert (found, framer.too_large, framer.feed(b'"}]')) == ([b'{"a":1}'], True, [])


def test_frames_have_no_event_names() -> None:
    assert LineFramer().feed(b"{}\n") == ArrayFramer().feed(b"[{}]") == [Frame(b"{}")]
