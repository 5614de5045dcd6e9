from __future__ import annotations

import base64
import itertools
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwright.wire.sse import Framer, SseEvent, sse_lines

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "sse_vectors.json").read_text())


def framed(*chunks: bytes, event_bytes_max: int = 1_000_000) -> tuple[list[SseEvent], Framer]:
    framer = Framer(event_bytes_max)
    events = [event for chunk in chunks for event in framer.feed(chunk)]
    return events + framer.end(), framer


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vectors(vector: dict[str, Any]) -> None:
    chunks = [base64.b64decode(chunk) for chunk in vector["chunks"]]
    shown = [json.loads(line) for line in sse_lines(chunks)]
    assert shown in [vector["events"], *vector.get("also_accept", [])]


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"data: a\n\n", [SseEvent(b"a")]),
        (b"data: a", [SseEvent(b"a", complete=False)]),
        (b"data: a\n", [SseEvent(b"a", complete=False)]),
        (b"\n\n\ndata: a\n\n\n\ndata: b\n\n", [SseEvent(b"a"), SseEvent(b"b")]),
        (b"id: 7\ndata: a\n\ndata: b\n\n", [SseEvent(b"a", id="7"), SseEvent(b"b", id="7")]),
        (b"id: 7\n\nid\ndata: b\n\n", [SseEvent(b"b", id="")]),
        (b"id: a\0b\ndata: b\n\n", [SseEvent(b"b")]),
        (b"retry: 10x\nretry: 20\ndata: b\n\n", [SseEvent(b"b", retry=20)]),
        (b"event: x\n\ndata: b\n\n", [SseEvent(b"b")]),
        (b": only\n\n: comments\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [SseEvent(b"a")]),
        (b"\xef\xbb", []),
        (b"", []),
    ],
)
def test_events(body: bytes, events: list[SseEvent]) -> None:
    assert framed(body)[0] == events
    assert framed(*(body[at : at + 1] for at in range(len(body))))[0] == events


def test_invalid_utf8_is_replaced_and_counted() -> None:
    events, framer = framed(b"data: a\xffb\xe2\x82\n\ndata: \xef\xbf\xbd\n\nevent: \xfe\ndata: c\n\n")
    assert [event.data.decode() for event in events] == ["a\ufffdb\ufffd", "\ufffd", "c"]
    assert (events[2].event, framer.utf8.replaced) == ("\ufffd", 3)


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_an_event_is_capped_and_what_came_before_it_is_kept(size: int) -> None:
    body = b"data: ok\n\ndata: " + b"x" * 2_000 + b"\n\ndata: never\n\n"
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    events, framer = framed(*chunks, event_bytes_max=500)
    assert (events, framer.too_large) == ([SseEvent(b"ok")], True)
    assert framer.feed(b"data: x\n\n") == []


def test_a_whole_event_beyond_the_cap_in_one_chunk() -> None:
    events, framer = framed(b"data: ok\n\ndata: " + b"x" * 600 + b"\n\ndata: never\n\n", event_bytes_max=500)
    assert (events, framer.too_large) == ([SseEvent(b"ok")], True)


LINES = st.sampled_from(
    [
        b"data: {}",
        b"data:x",
        b"data",
        b": c",
        b"event: e",
        b"id: 1",
        b"id",
        b"retry: 5",
        b"",
        b"",
        b"",
        b"data: \xc3\xa9",
        b"data: \xff",
        b"\xef\xbb\xbfdata: 1",
        b"dat",
        b"x: y",
        b"data: a: b",
    ]
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


@given(st.lists(st.tuples(LINES, ENDS), max_size=30), st.lists(st.integers(0, 300)), st.booleans())
def test_chunk_boundaries_never_matter(lines: list[tuple[bytes, bytes]], cuts: list[int], bom: bool) -> None:
    body = (b"\xef\xbb\xbf" if bom else b"") + b"".join(line + end for line, end in lines)
    places = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    chunks = [body[start:end] for start, end in itertools.pairwise(places)]
    whole, framer = framed(body)
    cut_up, other = framed(*chunks)
    assert (cut_up, other.utf8.replaced) == (whole, framer.utf8.replaced)
    assert framed(*(body[at : at + 1] for at in range(len(body))))[0] == whole


@given(st.binary(max_size=400), st.integers(1, 20))
def test_any_bytes_are_read_without_an_exception(body: bytes, size: int) -> None:
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    assert framed(*chunks)[0] == framed(body)[0]


def reference(body: bytes) -> list[tuple[str, str, str]]:
    """The WHATWG rules once more, line by line, without any thought of speed."""
    text = body.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    events, data, event, last_id = [], None, "", ""
    for line in text.split("\n")[:-1]:
        if not line:
            if data is not None:
                events.append((event, data.removesuffix("\n"), last_id))
            data, event = None, ""
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data = (data or "") + value + "\n"
        elif name == "event":
            event = value
        elif name == "id" and "\0" not in value:
            last_id = value
    return events


BLOCKS = st.sampled_from(
    [
        *[b"data: {}\n\n", b"event: e\ndata: 1\n\n"] * 3,
        *[b"data: \xc3\xa9\n\n", b"event: \xc3\xa9\ndata: 1\n\n", b"data: \xff\n\n", b"data:1\n\n"],
        *[b"data: 1\nevent: e\n\n", b": c\n\n", b"id: 9\n\n", b"\n"],
    ]
)


@given(st.lists(BLOCKS, max_size=12), st.lists(st.integers(0, 100)))
def test_runs_of_like_blocks_are_read_by_the_same_rules(blocks: list[bytes], cuts: list[int]) -> None:
    body = b"".join(blocks)
    places = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    for chunks in ([body], [body[start:end] for start, end in itertools.pairwise(places)]):
        assert [(one.event, one.data.decode(), one.id) for one in framed(*chunks)[0]] == reference(body)


@given(st.lists(st.tuples(LINES, ENDS), max_size=30))
def test_the_rules_are_those_of_the_standard(lines: list[tuple[bytes, bytes]]) -> None:
    body = b"".join(line + end for line, end in lines)
    events = [(one.event, one.data.decode(), one.id) for one in framed(body)[0] if one.complete]
    assert events == reference(body)


def test_a_long_event_in_small_pieces_takes_linear_time() -> None:
    def seconds(size: int) -> float:
        body = b"data: " + b"x" * size + b"\n\n"
        framer = Framer()
        started = time.process_time()
        for at in range(0, len(body), 64):
            framer.feed(body[at : at + 64])
        return time.process_time() - started

    seconds(100_000)
    small, large = min(seconds(500_000) for _ in range(3)), min(seconds(4_000_000) for _ in range(3))
    assert large < small * 8 * 3
