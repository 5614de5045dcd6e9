"""What is put right in a reply, and what is left as it is."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwright.kernel.assemble import CUT_AT_LIMIT, problem_of
from turnwright.kernel.repair import OBJECTS_MAX, leaked, repaired
from turnwright.schema.messages import AssistantMessage, ToolCall

OFFERED = ("look", "write")


def sent(raw: str, problem: str = "") -> ToolCall:
    """As it is assembled."""
    problem = problem or problem_of(raw)
    return ToolCall(
        id="c_1", name="look", arguments="{}" if problem else raw, raw=raw if problem else "", problem=problem
    )


def after(call: ToolCall) -> list[tuple[str, str]]:
    numbers = itertools.count(2)
    made = repaired(AssistantMessage(calls=(call,)), OFFERED, lambda: f"c_{next(numbers)}", recover=False)
    assert all(not each.problem for each in made.message.calls) is (not call.problem or bool(made.done))
    return [(each.id, each.arguments) for each in made.message.calls]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ('{"path":"a"}{"path":"b"}', [("c_1", '{"path":"a"}'), ("c_2", '{"path":"b"}')]),
        (' {"path":"a"}\n\n{"path":"b"} {} ', [("c_1", '{"path":"a"}'), ("c_2", '{"path":"b"}'), ("c_3", "{}")]),
        ('{"path":"a"}', [("c_1", '{"path":"a"}')]),
        ('{"path":"}{"}', [("c_1", '{"path":"}{"}')]),
    ],
)
def test_several_objects_are_several_calls(raw: str, expected: list[tuple[str, str]]) -> None:
    assert after(sent(raw)) == expected


@pytest.mark.parametrize(
    "raw",
    [
        '{"path":"a"',
        '{"path":"a"}{"path":',
        '{"path":"a"}[]',
        '{"path":"a"},{"path":"b"}',
        "{}x",
        "{}" * (OBJECTS_MAX + 1),
        '{"a":NaN}{"b":1}',
    ],
)
def test_what_is_not_made_of_whole_objects_is_left(raw: str) -> None:
    assert after(sent(raw)) == [("c_1", "{}")]


def test_a_call_that_was_cut_is_left() -> None:
    assert after(sent("{}{}", CUT_AT_LIMIT)) == [("c_1", "{}")]


LOOK = ("look", '{"path":"a"}')


@pytest.mark.parametrize(
    ("text", "rest", "calls"),
    [
        ('<tool_call>\n{"name": "look", "arguments": {"path": "a"}}\n</tool_call>', "", [LOOK]),
        ('Let me see.\n<tool_call>{"name":"look","arguments":{"path":"a"}}</tool_call>', "Let me see.", [LOOK]),
        ('<tool_call>{"name":"look","arguments":{"path":"a"}}</tool_call>' * 2, "", [LOOK, LOOK]),
        ('<tool_call>{"name":"look","arguments":{"path":"a"}}', "", [LOOK]),
        ('[TOOL_CALLS] [{"name":"look","arguments":{"path":"a"}}]', "", [LOOK]),
        ('<|python_tag|>{"name":"look","parameters":{"path":"a"}}', "", [LOOK]),
        ('Now:\n```json\n{"name":"look","arguments":{"path":"a"}}\n```', "Now:", [LOOK]),
        ('{"name":"look","arguments":{"path":"a"}}', "", [LOOK]),
        ('{"type":"function","function":{"name":"look","arguments":"{\\"path\\": \\"a\\"}"}}', "", [LOOK]),
    ],
)
def test_calls_in_the_text_are_found(text: str, rest: str, calls: list[tuple[str, str]]) -> None:
    assert leaked(text, OFFERED) == (rest, calls)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name":"rm","arguments":{"path":"a"}}</tool_call>',
        '<tool_call>{"name":"look","arguments":"no"}</tool_call>',
        '<tool_call>{"name":"look"</tool_call>',
        'A call is written <tool_call>{"name":"look","arguments":{}} and so on.',
        '```json\n{"name":"look","arguments":{}}\n``` is how it is written.'.replace("```json\n", "``` json\n"),
        '{"name":"look","arguments":{}} is how it is written.',
        '{"name":"look"}',
        '{"name":"look","arguments":{"path":"\\ud800"}}',
        '{"name":"look","arguments":"{}x"}',
        "plain words",
        "[1, 2]",
    ],
)
def test_anything_else_stays_text(text: str) -> None:
    assert leaked(text, OFFERED) == (text, [])


def test_it_is_only_done_when_asked_for() -> None:
    said = AssistantMessage(text='<tool_call>{"name":"look","arguments":{}}</tool_call>')
    assert repaired(said, OFFERED, lambda: "c_9", recover=False).message is said
    made = repaired(said, OFFERED, lambda: "c_9", recover=True)
    assert made.message == AssistantMessage(calls=(ToolCall(id="c_9", name="look", arguments="{}"),))
    assert made.done == ("a call of look was taken from the text",)
    beside = AssistantMessage(text=said.text, calls=(ToolCall(id="c_1", name="look", arguments="{}"),))
    assert repaired(beside, OFFERED, lambda: "c_9", recover=True).message is beside


OBJECTS = st.dictionaries(st.text(max_size=5), st.one_of(st.text(max_size=5), st.integers(), st.none()), max_size=3)


@given(st.lists(OBJECTS, min_size=2, max_size=5), st.sampled_from(["", " ", "\n", "\t\r\n"]))
def test_what_was_sent_is_what_is_called(objects: list[dict[str, object]], between: str) -> None:
    raw = between.join(json.dumps(each) for each in objects)
    assert [json.loads(arguments) for _, arguments in after(sent(raw))] == objects


@given(st.text(alphabet='<tool_cal>/{}[]":,look name arguments\n`json', max_size=200))
def test_any_text_is_read(text: str) -> None:
    rest, calls = leaked(text, OFFERED)
    assert all(name in OFFERED and isinstance(json.loads(arguments), dict) for name, arguments in calls)
    assert calls or rest == text


def test_long_text_is_read_in_time() -> None:
    for text in (
        "<tool_call>" * 100_000,
        "<tool_call>{" * 50_000,
        "[" * 500_000,
        '{"a":' * 100_000,
        "```json\n[" * 50_000,
    ):
        assert leaked(text, OFFERED) == (text, [])
