"""What became of an attempt: one row a case (P5)."""

from __future__ import annotations

import pytest

from turnwright.kernel.assemble import Assembly
from turnwright.kernel.verdict import verdict_of
from turnwright.schema.parts import (
    UNREADABLE,
    Closed,
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
    ToolCallStart,
)
from turnwright.schema.verdicts import Verdict

EOF = Closed(how="eof")
STALL = Closed(how="stall", stall="gap")
RESET = Closed(how="transport")
STOP = Finish(raw="stop", finish="stop")
LENGTH = Finish(raw="length", finish="length")
FILTER = Finish(raw="content_filter", finish="content_filter")
CALLS = Finish(raw="tool_calls", finish="tool_calls")
BROKEN = Finish(raw="MALFORMED_FUNCTION_CALL", finish="other", is_broken_call=True)
FAILED = Finish(raw="error", finish="error")
ERROR = StreamError(kind="overloaded", message="busy")
GOOD_CALL = (ToolCallStart(id="a", name="read"), ToolCallArguments(fragment="{}", id="a"))
BAD_CALL = (ToolCallStart(id="b", name="read"), ToolCallArguments(fragment='{"p', id="b"))

TABLE: list[tuple[tuple[Part, ...], Closed, Verdict]] = [
    ((Text("hi"), STOP), EOF, "complete"),
    ((Text("hi"), Done()), EOF, "complete"),
    ((Text("hi"), STOP, Done()), EOF, "complete"),
    ((Raw("image", "…"), STOP), EOF, "complete"),
    ((Text("hi"), Raw(UNREADABLE, "{"), STOP), EOF, "non_json"),
    ((Text("hi"), CALLS), EOF, "complete"),
    ((Text("hi"), LENGTH), EOF, "length"),
    ((LENGTH,), EOF, "length"),
    ((*GOOD_CALL, LENGTH), EOF, "length"),
    ((Text("hi"), FILTER), EOF, "refused"),
    ((Refusal("no"), STOP), EOF, "refused"),
    ((Refusal("no"), Text("but"), STOP), EOF, "complete"),
    ((*GOOD_CALL, CALLS), EOF, "tool_calls"),
    ((*GOOD_CALL, STOP), EOF, "tool_calls"),
    ((*GOOD_CALL, Done()), EOF, "tool_calls"),
    ((*BAD_CALL, CALLS), EOF, "malformed_call"),
    ((Text("I read."), BROKEN), EOF, "malformed_call"),
    ((*GOOD_CALL, BROKEN), EOF, "tool_calls"),
    ((BROKEN,), EOF, "empty"),
    ((*GOOD_CALL, *BAD_CALL, CALLS), EOF, "malformed_call"),
    ((ReasoningPart("hm"), STOP), EOF, "reasoning_only"),
    ((ReasoningPart("hm"), Text(" \n"), STOP), EOF, "reasoning_only"),
    ((Done(),), EOF, "empty"),
    ((STOP,), EOF, "empty"),
    ((CALLS,), EOF, "empty"),
    ((Text("  "), STOP), EOF, "empty"),
    ((), EOF, "truncated"),
    ((Start(model="m"),), EOF, "truncated"),
    ((Text("hi"),), EOF, "truncated"),
    (GOOD_CALL, EOF, "truncated"),
    (BAD_CALL, EOF, "truncated"),
    ((Text("hi"),), Closed(how="too_large"), "truncated"),
    ((ERROR,), EOF, "in_band_error"),
    ((Text("hi"), ERROR), EOF, "in_band_error"),
    ((Text("hi"), ERROR, STOP, Done()), EOF, "in_band_error"),
    ((Text("hi"), FAILED), EOF, "in_band_error"),
    ((ERROR,), STALL, "in_band_error"),
    ((ERROR,), RESET, "in_band_error"),
    ((Text("hi"),), STALL, "stall"),
    ((), STALL, "stall"),
    ((Text("hi"), STOP), STALL, "complete"),
    ((Text("hi"),), RESET, "transport"),
    ((), RESET, "transport"),
    ((*GOOD_CALL, CALLS), RESET, "tool_calls"),
    ((ERROR,), Closed(how="http_error", status=529), "http_error"),
    ((), Closed(how="http_error", status=500), "http_error"),
    ((), Closed(how="interstitial", status=200), "interstitial"),
    ((), Closed(how="non_json", status=200), "non_json"),
]


@pytest.mark.parametrize(("parts", "closed", "verdict"), TABLE, ids=range(len(TABLE)))
def test_verdicts(parts: tuple[Part, ...], closed: Closed, verdict: Verdict) -> None:
    assembly = Assembly(new_id=lambda: "own")
    assembly.add(parts)
    assert verdict_of(assembly.reply(), closed) == verdict
