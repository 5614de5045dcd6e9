from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from turnwright.kernel.ports import Model
from turnwright.providers.script import (
    Broken,
    Call,
    Expect,
    HttpError,
    Reported,
    Script,
    Stalled,
    Step,
    Tokens,
    Truncated,
    WrongBody,
    parse_script,
    read_script,
)
from turnwright.providers.scripted import ScriptedModel, ScriptMismatch
from turnwright.schema.errors import ConfigError, InputError
from turnwright.schema.messages import AssistantMessage, Message, RuntimeMessage, ToolResult, ToolResults, UserMessage
from turnwright.schema.parts import (
    Closed,
    Done,
    Finish,
    Part,
    ReasoningPart,
    Start,
    StreamError,
    Text,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    UsagePart,
)
from turnwright.schema.prompt import Prompt, Section, ToolSpec
from turnwright.schema.routes import Price, Route


def prompt(*messages: Message, tools: tuple[str, ...] = (), temperature: float | None = None) -> Prompt:
    specs = tuple(ToolSpec(name=name, description="", parameters={"type": "object"}) for name in tools)
    return Prompt(
        lineage="l", system=(Section("role", "Be good."),), messages=messages, tools=specs, temperature=temperature
    )


def results(*outputs: str) -> ToolResults:
    return ToolResults(results=tuple(ToolResult(call_id=f"c{n}", name="t", output=o) for n, o in enumerate(outputs)))


async def play(model: ScriptedModel, sent: Prompt | None = None) -> list[Part]:
    route = model.route(())
    assert isinstance(route, Route)
    return [part async for parts in model.attempt(route, sent or prompt(UserMessage(text="hi"))) for part in parts]


class Clock:
    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, delay_s: float) -> None:
        self.slept.append(delay_s)


async def test_a_step_is_a_whole_attempt() -> None:
    model = ScriptedModel(
        parse_script(
            """
            model: m
            route: r
            price: {input: 1, output: 2}
            window: 1000
            steps:
              - reasoning: think
                text: I read it
                calls: [read: {path: a}, {name: bash, raw: '{"command":', id: x}]
                chunk: 20
            """
        )
    )
    kept: Model = model
    assert kept.route(()) == Route(name="r", model="m", price=Price(input=1, output=2), window=1000)
    assert await play(model) == [
        Start(model="m", response_id="scripted-1"),
        ReasoningPart("think"),
        Text("I read it"),
        ToolCallStart(index=0, id="call_1_0", name="read"),
        ToolCallArguments(fragment='{"path":"a"}', index=0, id="call_1_0"),
        ToolCallEnd(index=0, id="call_1_0"),
        ToolCallStart(index=1, id="x", name="bash"),
        ToolCallArguments(fragment='{"command":', index=1, id="x"),
        ToolCallEnd(index=1, id="x"),
        UsagePart(usage=Usage(input=3, output=10, reasoning=2), reported=Usage(input=3, output=10, reasoning=2)),
        Finish(raw="tool_calls", finish="tool_calls"),
        Done(),
        Closed(how="eof", status=200, bytes_in=14),
    ]
    model.assert_complete()


@pytest.mark.parametrize(
    ("chunk", "pieces"),
    [
        (4, ["one ", "two\n", "thre", "e"]),
        ("words", ["one ", "two\nthree"]),
        ("lines", ["one two\n", "three"]),
        ("whole", ["one two\nthree"]),
    ],
)
async def test_chunking(chunk: Any, pieces: list[str]) -> None:
    parts = await play(ScriptedModel([Step(text="one two\nthree", chunk=chunk)]))
    assert [part.text for part in parts if isinstance(part, Text)] == pieces


USAGE = Usage(input=1, output=1)
ENDING: list[Part] = [
    UsagePart(usage=USAGE, reported=USAGE),
    Finish(raw="stop", finish="stop"),
    Done(),
    Closed(how="eof", status=200, bytes_in=1),
]
START = Start(model="scripted", response_id="scripted-1")


@pytest.mark.parametrize(
    ("fault", "parts"),
    [
        (None, [START, Text("a"), *ENDING]),
        (Truncated(), [START, Text("a"), Closed(how="eof", status=200, bytes_in=1)]),
        (Truncated(after=0), [START, Closed(how="eof", status=200, bytes_in=1)]),
        (
            Stalled(after=0, reason="first_part"),
            [START, Closed(how="stall", status=200, stall="first_part", bytes_in=1)],
        ),
        (
            Reported(kind="overloaded", message="busy", code="529"),
            [
                START,
                Text("a"),
                StreamError(kind="overloaded", message="busy", status=200, code="529"),
                Closed(how="eof", status=200, bytes_in=1),
            ],
        ),
        (
            HttpError(status=429, kind="rate_limit", message="slow", retry_after_s=3),
            [
                StreamError(kind="rate_limit", message="slow", status=429),
                Closed(how="http_error", status=429, retry_after_s=3),
            ],
        ),
        (Broken(detail="gone"), [START, Text("a"), Closed(how="transport", status=200, detail="gone", bytes_in=1)]),
        (
            WrongBody(how="non_json", excerpt="boo"),
            [Closed(how="non_json", status=200, excerpt="boo", bytes_in=3)],
        ),
    ],
)
async def test_faults(fault: Any, parts: list[Part]) -> None:
    model = ScriptedModel([Step(text="a", fault=fault)])
    sent = prompt()
    assert await play(model, Prompt(lineage=sent.lineage, system=(), messages=())) == parts


async def test_delays_are_the_clocks() -> None:
    clock = Clock()
    step = Step(text="a b c", delay_s=2, gap_s=0.5, fault=Stalled(wait_s=9))
    await play(ScriptedModel([step], clock=clock))
    assert clock.slept == [2, 0.5, 0.5, 9]
    with pytest.raises(TypeError, match="needs a clock"):
        await play(ScriptedModel([step]))


async def test_a_stall_without_end_is_left_to_the_loop() -> None:
    model = ScriptedModel([Step(text="a", fault=Stalled(wait_s="forever"))])
    task = asyncio.create_task(play(model))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_usage_is_given_estimated_or_missing() -> None:
    model = ScriptedModel([Step(text="a", usage=Tokens(input=7, cache_read=3)), Step(text="a", usage="none")])
    assert UsagePart(usage=Usage(input=7, cache_read=3), reported=Usage(input=7, cache_read=3)) in await play(model)
    assert not [part for part in await play(model) if isinstance(part, UsagePart)]


async def test_the_estimate_grows_with_the_history() -> None:
    model = ScriptedModel([Step(text="a", repeat="forever")])
    history: list[Message] = []
    inputs = []
    for _ in range(3):
        history.append(UserMessage(text="x" * 40))
        parts = await play(model, prompt(*history))
        inputs += [part.usage.input for part in parts if isinstance(part, UsagePart)]
    assert inputs == [12, 22, 32]


async def test_once_too_often() -> None:
    model = ScriptedModel([Step(text="a", repeat=2)])
    await play(model)
    await play(model)
    model.assert_complete()
    with pytest.raises(ScriptMismatch, match=r"has 1 steps, which answer 2 attempts.*last message was 'hi'"):
        await play(model)


async def test_steps_left_over() -> None:
    model = ScriptedModel([Step(text="a"), Step(text="the rest", repeat=2)])
    await play(model)
    await play(model)
    with pytest.raises(ScriptMismatch, match=r"left at step 2 of 2 \('the rest'\), after 2 attempts"):
        model.assert_complete()
    forever = ScriptedModel([Step(text="a", repeat="forever")])
    with pytest.raises(ScriptMismatch, match="left at step 1"):
        forever.assert_complete()
    await play(forever)
    forever.assert_complete()


async def test_expectations_that_hold() -> None:
    expect = Expect(
        user_contains="fix",
        runtime_contains="wrap",
        system_contains="good",
        result_contains="two",
        result_is=["one", "two"],
        tools=["b", "a"],
        tools_include=["a"],
        messages=3,
        temperature=0.2,
    )
    model = ScriptedModel([Step(expect=expect, text="a")])
    history = (UserMessage(text="fix it"), results("one", "two"), RuntimeMessage(text="wrap up", code="c"))
    await play(model, prompt(*history, tools=("a", "b"), temperature=0.2))
    model.assert_complete()


@pytest.mark.parametrize(
    ("expect", "complaint"),
    [
        (Expect(user_contains="fix"), "the last user text to contain 'fix', and it is 'hi'"),
        (Expect(runtime_contains="x"), "the runtime's last words to contain 'x', and it is ''"),
        (Expect(system_contains="bad"), "the system prompt to contain 'bad', and it is 'Be good.'"),
        (Expect(result_contains="x"), "the last tool results to contain 'x', and it is 'out'"),
        (Expect(result_is="x"), "the last tool results to be ['x'], and they are \"['out']\""),
        (Expect(tools=[]), "exactly the tools [] to be offered, and ['a'] are"),
        (Expect(tools_include=["a", "b"]), "the tools ['b'] to be offered, and only ['a'] are"),
        (Expect(messages=1), "1 messages, and there are 2"),
        (Expect(temperature=1), "temperature 1, and it is None"),
    ],
)
async def test_expectations_that_do_not_hold(expect: Expect, complaint: str) -> None:
    model = ScriptedModel([Step(text="a"), Step(text="b", expect=expect)])
    await play(model)
    with pytest.raises(ScriptMismatch) as caught:
        await play(model, prompt(UserMessage(text="hi"), results("out"), tools=("a",)))
    assert str(caught.value) == f"Step 2 of the script expected {complaint}."


async def test_what_is_known_only_at_run_time() -> None:
    step = Step(
        text="You said {{last_user}}; {{unknown}} {{",
        calls=[Call(name="t", arguments={"all": ["{{ last_result }}"], "id": "{{last_result after job: }}", "n": 1})],
    )
    model = ScriptedModel([step, step])
    history = (UserMessage(text="{{last_result}}"), results("job: 7 \nrest"))
    parts = await play(model, prompt(*history))
    assert "".join(part.text for part in parts if isinstance(part, Text)) == (
        "You said {{last_result}}; {{unknown}} {{"
    )
    assert "".join(part.fragment for part in parts if isinstance(part, ToolCallArguments)) == (
        '{"all":["job: 7 \\nrest"],"id":"7","n":1}'
    )
    with pytest.raises(ScriptMismatch, match="behind 'job:' in last_result, and it is not there"):
        await play(model, prompt(UserMessage(text="x")))


async def test_a_function_of_the_prompt() -> None:
    model = ScriptedModel(lambda sent: Step(text=f"{len(sent.messages)} messages", chunk="whole"))
    assert Text("1 messages") in await play(model)
    assert Text("0 messages") in await play(model, prompt())
    assert [len(sent.messages) for sent in model.prompts] == [1, 0]
    model.assert_complete()


async def test_following_the_history_carries_on_in_another_process() -> None:
    script = Script(
        steps=[
            Step(text="one", chunk="whole"),
            Step(fault=HttpError()),
            Step(text="two", chunk="whole", repeat=2),
            Step(text="end", chunk="whole"),
        ],
        follow="history",
    )

    async def said(model: ScriptedModel, replies: int) -> list[Part]:
        history: list[Message] = [UserMessage(text="go"), *[AssistantMessage(text="a")] * replies]
        return [p for p in await play(model, prompt(*history)) if isinstance(p, Text | StreamError)]

    failed = StreamError(kind="server", message="scripted error", status=503)
    model = ScriptedModel(script)
    assert [await said(model, replies) for replies in (0, 1, 1, 2, 3)] == [
        [Text("one")],
        [failed],
        [Text("two")],
        [Text("two")],
        [Text("end")],
    ]
    model.assert_complete()
    assert await said(ScriptedModel(script), 2) == [Text("two")]
    assert await said(ScriptedModel(script), 3) == [Text("end")]
    with pytest.raises(ScriptMismatch, match="was called once more"):
        await said(ScriptedModel(script), 4)
    with pytest.raises(ScriptMismatch, match="holds 5 replies"):
        await said(ScriptedModel(script), 5)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("steps: [", "s.yaml is not YAML"),
        ("- {txt: a}", r"s.yaml: Object contains unknown field `txt` - at `\$.steps\[0\]`."),
        ("- {text: a, finish: maybe}", r"Invalid enum value 'maybe' - at `\$.steps\[0\].finish`"),
        ("- {text: a, fault: explode}", "Invalid value 'explode' - at"),
        ("- {text: a, repeat: 0}", "step 1 has repeat 0"),
        ("[{text: a, repeat: forever}, {text: b}]", "step 1 repeats forever, so that the steps after it"),
        ("- {text: a, chunk: 0}", "step 1 has chunk 0"),
        ("- {text: a, gap_s: -1}", "step 1 has a negative delay"),
        ("hello", "Expected `object`, got `str`"),
    ],
)
def test_a_bad_script_says_where(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_script(text, source="s.yaml")


def test_short_and_long_forms() -> None:
    assert parse_script("- {calls: [ls: , {name: b, arguments: {x: 1}}], fault: stall}") == Script(
        steps=[Step(calls=[Call(name="ls"), Call(name="b", arguments={"x": 1})], fault=Stalled())]
    )


def test_a_script_file(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("- {text: hello}\n")
    assert read_script(path) == Script(steps=[Step(text="hello")])
    with pytest.raises(InputError, match="cannot be read"):
        read_script(tmp_path / "none.yaml")
