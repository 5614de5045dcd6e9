from __future__ import annotations

import gzip
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwright.schema.frames import Frame
from turnwright.wire.gate import Framing, Reading, Refused
from turnwright.wire.reading import REFUSED_BYTES_MAX, BodyReader
from turnwright.wire.sse import SseEvent

SSE = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}


def read(
    body: bytes,
    headers: dict[str, str] = JSON,
    *,
    status: int = 200,
    asked: Framing | None = "sse",
    cuts: list[int] | None = None,
    cut: bool = False,
) -> tuple[list[Frame], BodyReader]:
    reader = BodyReader(status, headers, asked)
    places = sorted({0, len(body), *(at for at in cuts or [] if at < len(body))})
    frames = [frame for start, end in pairwise(places) for frame in reader.feed(body[start:end])]
    return [*frames, *reader.end(cut=cut)], reader


@pytest.mark.parametrize(
    ("body", "headers", "asked", "frames", "reading"),
    [
        (b"data: {}\n\n", SSE, "sse", [SseEvent(b"{}")], "sse"),
        (b'data: {"a":1}', SSE, "sse", [SseEvent(b'{"a":1}', complete=False)], "sse"),
        (b'data: {"a":1}\n\ndata: {"b', SSE, "sse", [SseEvent(b'{"a":1}')], "sse"),
        (b"data: [DONE]", SSE, "sse", [SseEvent(b"[DONE]", complete=False)], "sse"),
        (b' {"a": 1} \n', JSON, None, [Frame(b'{"a": 1}')], "json"),
        (b'\xef\xbb\xbf{"a":1}', JSON, "sse", [Frame(b'{"a":1}')], "json"),
        (b'{"a":"\xff"}', JSON, None, [Frame('{"a":"\ufffd"}'.encode())], "json"),
        (b'{"a":1', JSON, None, [], "json"),
        (b'{"a":-', JSON, None, [], "json"),
        (b'[{"a":1},{"b":2}]', JSON, "sse", [Frame(b'{"a":1}'), Frame(b'{"b":2}')], "json-array"),
        (b'{"a":1}\n{"b":2}\n', {}, "ndjson", [Frame(b'{"a":1}'), Frame(b'{"b":2}')], "ndjson"),
        (b'{"a":1}\n{"b":', {}, "ndjson", [Frame(b'{"a":1}')], "ndjson"),
    ],
)
def test_frames(
    body: bytes, headers: dict[str, str], asked: Framing | None, frames: list[Frame], reading: Reading
) -> None:
    found, reader = read(body, headers, asked=asked)
    assert (found, reader.reading, reader.refused) == (frames, reading, None)
    found, reader = read(body, headers, asked=asked, cuts=list(range(len(body))))
    assert (found, reader.reading, reader.refused) == (frames, reading, None)


@pytest.mark.parametrize(
    ("body", "headers", "status", "how"),
    [
        (b"<html>no</html>", JSON, 200, "interstitial"),
        (b"<html>no</html>", JSON, 503, "http_error"),
        (b"", JSON, 200, "non_json"),
        (b"", JSON, 429, "http_error"),
        (b'{"a":1} x', JSON, 200, "non_json"),
        (b"{'a':1}", JSON, 200, "non_json"),
        (b"[" * 100_000, JSON, 200, "non_json"),
        (b"plain", {"content-type": "text/plain", "content-encoding": "br"}, 200, "non_json"),
        (b"plain", {"content-encoding": "gzip"}, 200, "non_json"),
        (b"plain", {"content-encoding": "br"}, 500, "http_error"),
    ],
)
def test_refusals(body: bytes, headers: dict[str, str], status: int, how: str) -> None:
    frames, reader = read(body, headers, status=status, asked=None)
    assert frames == []
    assert reader.refused is not None
    assert (reader.refused.how, reader.body) == (how, body[:REFUSED_BYTES_MAX])


def test_the_kept_part_of_a_refused_body_is_bounded() -> None:
    frames, reader = read(b"<html>" + b"x" * 1_000_000, cuts=list(range(0, 1_000_006, 10_000)))
    assert (frames, len(reader.body), len(reader.excerpt)) == ([], REFUSED_BYTES_MAX, 2_000)


def test_a_connection_that_broke_makes_no_document() -> None:
    frames, reader = read(b'{"a":1}', cut=True, asked=None)
    assert (frames, reader.refused) == ([], None)
    frames, _ = read(b'data: {"a":1}\n\ndata: {"b":2}', SSE, cut=True)
    assert [frame.data for frame in frames] == [b'{"a":1}', b'{"b":2}']


def test_blanks_before_a_document_take_no_memory() -> None:
    reader = BodyReader(200, JSON, None)
    for _ in range(100_000):
        assert reader.feed(b"      ") == ()
    assert reader.feed(b'{"a":1}') == () and reader.end() == [Frame(b'{"a":1}')]


@pytest.mark.parametrize(
    ("coding", "compress"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda data: zlib.compress(data, wbits=-15)),
        ("GZIP ", gzip.compress),
        ("identity", lambda data: data),
    ],
)
def test_content_codings(coding: str, compress: object) -> None:
    assert callable(compress)
    body = compress(b'data: {"a":1}\n\n' * 50)
    for cuts in ([], list(range(0, len(body), 3)), list(range(len(body)))):
        frames, reader = read(body, {**SSE, "content-encoding": coding}, cuts=cuts)
        assert (frames, reader.refused) == ([SseEvent(b'{"a":1}')] * 50, None)


def bytewise(body: bytes) -> list[int]:
    return list(range(len(body)))


def test_what_is_not_in_its_coding_is_kept_whole_wherever_it_is_cut() -> None:
    body = b'data: {"a":1}\n\n'
    for cuts in ([], bytewise(body)):
        frames, reader = read(body, {**SSE, "content-encoding": "gzip"}, cuts=cuts)
        assert (frames, reader.body) == ([], body)
        assert reader.refused is not None and reader.refused.how == "non_json"


def test_what_came_before_a_broken_coding_is_read_wherever_it_is_cut() -> None:
    packed = zlib.compressobj(wbits=31)
    body = packed.compress(b'data: {"a":1}\n\n') + packed.flush(zlib.Z_SYNC_FLUSH) + b"\xff" * 20
    for cuts in ([], bytewise(body), [5]):
        frames, reader = read(body, {**SSE, "content-encoding": "gzip"}, cuts=cuts)
        assert frames == [SseEvent(b'{"a":1}')]
        assert reader.refused is not None and reader.refused.how == "non_json"


def test_blanks_before_the_first_byte_need_no_memory() -> None:
    for cuts in ([], bytewise(b" " * 300)):
        frames, reader = read(b" " * 300 + b"sorry", {}, cuts=cuts)
        assert (frames, reader.body) == ([], b" " * 64 + b"sorry")


def test_a_bomb_is_refused() -> None:
    bomb = gzip.compress(bytes(65 * 1024 * 1024), 1)
    frames, reader = read(bomb, {**JSON, "content-encoding": "gzip"}, asked=None)
    assert frames == []
    assert reader.refused is not None and reader.refused.how == "non_json" and "inflates" in reader.refused.detail


def test_an_event_beyond_the_cap() -> None:
    frames, reader = read(b'data: {"a":1}\n\ndata: ' + b"x" * 9_000_000, SSE, cuts=list(range(0, 9_000_000, 50_000)))
    assert (frames, reader.too_large) == ([SseEvent(b'{"a":1}')], True)


@given(
    st.sampled_from(
        [b'data: {"a":1}\n\ndata: {"b":"\xc3\xa9"}\n\n: x\n\ndata: [DONE]\n\n', b'{"a":[1,2]}', b"<html>x</html>"]
    )
    | st.binary(max_size=60),
    st.sampled_from([SSE, JSON, {}, {"content-type": "text/plain"}, {"content-type": "application/x-ndjson"}]),
    st.sampled_from([None, "sse", "ndjson", "json-array"]),
    st.sampled_from([200, 500]),
    st.lists(st.integers(0, 60)),
)
def test_cuts_never_matter(body: bytes, headers: dict[str, str], asked: Framing, status: int, cuts: list[int]) -> None:
    whole, one = read(body, headers, asked=asked, status=status)
    cut_up, other = read(body, headers, asked=asked, status=status, cuts=cuts)
    assert (cut_up, other.reading, other.refused) == (whole, one.reading, one.refused)
    assert other.body == one.body
    assert isinstance(one.refused, Refused | None)
