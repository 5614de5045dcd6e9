"""Parts into replies: which call a fragment belongs to, what its name and id are, and whether it may run."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwright.kernel.assemble import CUT_AT_LIMIT, Assembly, Reply
from turnwright.schema.live import ReasoningDelta, TextDelta, ToolArgsDelta
from turnwright.schema.messages import AssistantMessage, Reasoning, ToolCall
from turnwright.schema.parts import (
    Done,
    Finish,
    Part,
    Raw,
    ReasoningPart,
    Refusal,
    Start,
    StreamError,
    Text,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    UsagePart,
)

OFFERED = frozenset({"read", "read_many", "bash", "get"})


def assembly(used_ids: Collection[str] = frozenset()) -> Assembly:
    numbers = count(1)
    return Assembly(new_id=lambda: f"own_{next(numbers)}", offered=OFFERED, used_ids=used_ids, route="r")


def reply_of(parts: Sequence[Part], used_ids: Collection[str] = frozenset()) -> Reply:
    one = assembly(used_ids)
    one.add(parts)
    return one.reply()


def call(id_: str, name: str, arguments: str = "{}", **more: str) -> ToolCall:
    return ToolCall(id=id_, name=name, arguments=arguments, **more)


def start(name: str = "", id_: str = "", *, index: int | None = None) -> ToolCallStart:
    return ToolCallStart(index=index, id=id_, name=name)


def args(fragment: str, id_: str = "", *, index: int | None = None) -> ToolCallArguments:
    return ToolCallArguments(fragment=fragment, index=index, id=id_)


CALLS: dict[str, tuple[list[Part], tuple[ToolCall, ...]]] = {
    "two calls by index": (
        [
            start("read", id_="a", index=0),
            args('{"p":', index=0),
            start("bash", id_="b", index=1),
            args('{"c":1}', index=1),
            args("2}", index=0),
        ],
        (call("a", "read", '{"p":2}'), call("b", "bash", '{"c":1}')),
    ),
    "two calls by id, interleaved": (
        [
            start("read", id_="a"),
            start("bash", id_="b"),
            args('{"p":1', id_="a"),
            args('{"c":2}', id_="b"),
            args("}", id_="a"),
        ],
        (call("a", "read", '{"p":1}'), call("b", "bash", '{"c":2}')),
    ),
    "neither id nor index: the last open call": (
        [start("read"), args('{"p"'), args(":1}"), start("bash"), args("{}")],
        (call("own_1", "read", '{"p":1}'), call("own_2", "bash", "{}")),
    ),
    "id and name repeated with every fragment": (
        [
            start("read", id_="a", index=0),
            args('{"p"', id_="a", index=0),
            start("read", id_="a", index=0),
            args(":1}", id_="a", index=0),
        ],
        (call("a", "read", '{"p":1}'),),
    ),
    "another id under the same index is another call": (
        [
            start("read", id_="a", index=0),
            args("{}", index=0),
            start("read", id_="b", index=0),
            args('{"p":2}', index=0),
        ],
        (call("a", "read"), call("b", "read", '{"p":2}')),
    ),
    "another whole name under the same index, without ids, is another call": (
        [start("read", index=0), args('{"p":1}', index=0), start("bash", index=0), args('{"c":2}', index=0)],
        (call("own_1", "read", '{"p":1}'), call("own_2", "bash", '{"c":2}')),
    ),
    "the same id under another index is another call, with an id of ours": (
        [start("read", id_="a", index=0), args("{}", index=0), start("bash", id_="a", index=1), args("{}", index=1)],
        (call("a", "read"), call("own_1", "bash")),
    ),
    "the same id after its end is another call": (
        [start("read", id_="a"), ToolCallEnd(id="a"), start("read", id_="a"), args('{"p":2}', id_="a")],
        (call("a", "read"), call("own_1", "read", '{"p":2}')),
    ),
    "a name in pieces": (
        [start("re", id_="a", index=0), start("ad", index=0), start("_many", index=0)],
        (call("a", "read_many"),),
    ),
    "a growing name": ([start("re", id_="a", index=0), start("read", index=0)], (call("a", "read"),)),
    "a piece that fits no offered name is not appended": (
        [start("read", id_="a", index=0), start("bash", id_="a", index=0)],
        (call("a", "read"),),
    ),
    "a late id": ([start("read", index=0), start(id_="a", index=0), args("{}", index=0)], (call("a", "read"),)),
    "no arguments at all": ([start("read", id_="a")], (call("a", "read"),)),
    "white space for arguments": ([start("read", id_="a"), args(" \n")], (call("a", "read"),)),
    "arguments repeated at the end replace the fragments": (
        [start("read", id_="a"), args('{"p":'), ToolCallEnd(id="a", arguments='{"p":1}')],
        (call("a", "read", '{"p":1}'),),
    ),
    "arguments only at the end": (
        [start("read", id_="a"), ToolCallEnd(id="a", arguments='{"p":1}')],
        (call("a", "read", '{"p":1}'),),
    ),
    "a signature": (
        [ToolCallStart(id="a", name="read", signature="s")],
        (call("a", "read", signature="s"),),
    ),
    "an unknown tool is left for dispatch to answer": ([start("fly", id_="a")], (call("a", "fly"),)),
    "half an object": (
        [start("read", id_="a"), args('{"p": "x')],
        (
            call(
                "a",
                "read",
                raw='{"p": "x',
                problem="The arguments are not valid JSON: Input data was truncated.",
            ),
        ),
    ),
    "not an object": (
        [start("read", id_="a"), args("[1]")],
        (call("a", "read", raw="[1]", problem="The arguments must be a JSON object."),),
    ),
    "nested beyond reason": (
        [start("read", id_="a"), args("[" * 100_000)],
        (call("a", "read", raw="[" * 100_000, problem="The arguments are nested too deeply."),),
    ),
    "arguments without a call": (
        [args('{"p":1}')],
        (call("own_1", "unnamed", '{"p":1}', problem="The call names no tool."),),
    ),
    "an end without a call": ([ToolCallEnd()], ()),
}


@pytest.mark.parametrize("case", CALLS)
def test_calls(case: str) -> None:
    parts, expected = CALLS[case]
    assert reply_of(parts).message.calls == expected


def test_an_id_that_the_conversation_has_used_becomes_ours() -> None:
    assert reply_of([start("read", id_="call_0")], {"call_0"}).message.calls == (call("own_1", "read"),)


def test_nothing_runs_when_the_limit_cut_the_reply() -> None:
    calls = reply_of([start("read", id_="a"), args("{}"), Finish(raw="length", finish="length")]).message.calls
    assert calls == (call("a", "read", problem=CUT_AT_LIMIT),)


def test_a_whole_reply() -> None:
    parts: list[Part] = [
        Start(model="m", response_id="x"),
        ReasoningPart("why", 0),
        ReasoningPart("", 0, "sig"),
        ReasoningPart("more", 2, opaque='{"a":'),
        ReasoningPart(block=2, opaque="1}"),
        Text("Hello "),
        Text("you"),
        Raw("image", "…"),
        Refusal("no"),
        UsagePart(usage=Usage(input=5), reported=Usage(input=3), cost_usd=0.5),
        Finish(raw="stop", finish="stop"),
        UsagePart(usage=Usage(output=7), reported=Usage(output=6)),
        Done(),
    ]
    assert reply_of(parts) == Reply(
        message=AssistantMessage(
            text="Hello you",
            reasoning=(Reasoning(text="why", signature="sig"), Reasoning(text="more", opaque='{"a":1}')),
            route="r",
        ),
        finish_raw="stop",
        finish="stop",
        usage=Usage(input=5, output=7),
        reported=Usage(input=3, output=6),
        cost_usd=0.5,
        refusal="no",
        done=True,
        model="m",
        response_id="x",
        others=(Raw("image", "…"),),
        has_content=True,
    )


def test_the_first_error_is_kept() -> None:
    first = StreamError(kind="server", message="one")
    assert reply_of([first, StreamError(kind="auth", message="two")]).error == first


def test_nothing_is_no_content() -> None:
    assert reply_of([Start(model="m"), Done()]) == Reply(message=AssistantMessage(route="r"), done=True, model="m")


def test_live_events_keep_order_and_join_neighbours() -> None:
    one = assembly()
    events = one.add(
        [ReasoningPart("hm"), Text("a"), Text("b"), start("read", id_="x"), args('{"p"'), args(":1}"), Text("c")]
    )
    assert events == [
        ReasoningDelta(text="hm"),
        TextDelta(text="ab"),
        ToolArgsDelta(call_id="x", name="read", fragment='{"p":1}'),
        TextDelta(text="c"),
    ]


def test_live_events_are_stamped() -> None:
    one = Assembly(new_id=str, conversation_id="c", turn_id="t", step_id="t#0")
    assert one.add([Text("x")]) == [TextDelta(conversation_id="c", turn_id="t", step_id="t#0", text="x")]


def test_two_megabytes_in_small_pieces_cost_what_their_length_costs() -> None:
    def spent(pieces: int) -> float:
        one, began = assembly(), time.process_time()
        one.add([start("read", id_="a", index=0), args('{"p":"', index=0)])
        for _ in range(pieces):
            one.add([args("abcdefgh", index=0)])
        one.add([args('"}', index=0)])
        assert one.reply().message.calls[0].problem == ""
        return time.process_time() - began

    small, large = min(spent(25_000) for _ in range(3)), spent(250_000)
    assert large < 25 * small + 0.1


PIECES = st.one_of(
    st.builds(Text, st.text(max_size=3)),
    st.builds(ReasoningPart, st.text(max_size=3), st.integers(0, 2), st.text(max_size=1)),
    st.builds(
        ToolCallStart,
        index=st.none() | st.integers(0, 2),
        id=st.sampled_from(["", "a", "b"]),
        name=st.sampled_from(["", "re", "ad", "read", "bash", "other"]),
    ),
    st.builds(
        ToolCallArguments,
        fragment=st.sampled_from(["", "{", "}", '"p":1', "{}", "["]),
        index=st.none() | st.integers(0, 2),
        id=st.sampled_from(["", "a", "b"]),
    ),
    st.builds(ToolCallEnd, index=st.none() | st.integers(0, 2), id=st.sampled_from(["", "a"])),
    st.builds(Finish, raw=st.just("stop"), finish=st.sampled_from(["stop", "length", "tool_calls"])),
)


@given(st.lists(PIECES), st.lists(st.integers(0, 30)))
def test_whatever_comes_the_history_is_valid_and_cuts_do_not_matter(parts: list[Part], cuts: list[int]) -> None:
    whole, pieces = reply_of(parts), assembly()
    edges = [0, *sorted(cuts), len(parts)]
    for low, high in pairwise(edges):
        pieces.add(parts[low:high])
    assert pieces.reply() == whole
    ids = [one.id for one in whole.message.calls]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    for one in whole.message.calls:
        assert one.arguments.startswith("{")
        assert not (one.raw and not one.problem)
