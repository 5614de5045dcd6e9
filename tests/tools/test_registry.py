"""Functions become tools; arguments are checked before anything runs; every failure is an answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
import pytest

from turnwright.kernel import ports
from turnwright.schema.errors import ConfigError, JournalUnwritable, MachineError, ToolFailure
from turnwright.schema.messages import Image
from turnwright.schema.tools import Delegation, Ready, ToolOutcome, Unfit
from turnwright.tools.context import ToolContext
from turnwright.tools.registry import FunctionTool, Toolbox, tool


class Call:
    """What the loop hands over, as simple as can be."""

    def __init__(self, answer: str | None = None) -> None:
        self.turn_id, self.step_id, self.call_id = "t1", "t1#0", "call_1"
        self.answer = answer
        self.shown: list[str] = []
        self.asked: list[tuple[str, Sequence[str]]] = []

    def output(self, text: str, stream: Literal["stdout", "stderr"] = "stdout") -> None:
        self.shown.append(text)

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        self.asked.append((question, choices))
        return self.answer

    async def delegate(self, wanted: Delegation) -> ToolOutcome:
        raise AssertionError("nobody is sent here")


class Edit(msgspec.Struct, forbid_unknown_fields=True):
    """One replacement."""

    old: str
    new: str = ""


@tool(effect="reads", concurrent=True, timeout_s=5)
async def look(
    ctx: ToolContext,
    path: str,
    first: Annotated[int, "the first line", msgspec.Meta(ge=1)] = 1,
    kinds: list[Literal["file", "dir"]] | None = None,
    ratio: float = 0.5,
    extra: dict[str, bool] = {},  # noqa: B006
) -> str:
    """Look at something.

    More words about it.

    Args:
        path: where to look,
            continued on a second line
        kinds (list): what to show

    Returns:
        What was seen.
    """
    ctx.output(f"looking at {path}")
    return f"{path} from {first} {kinds} {ratio} {extra}"


@tool(effect="writes")
async def change(edits: list[Edit]) -> str:
    """Change it."""
    return ", ".join(f"{edit.old}->{edit.new}" for edit in edits)


def ping() -> None:
    """Nothing declared."""


def test_the_signature_is_the_schema() -> None:
    spec = FunctionTool.of(look).spec
    assert (spec.name, spec.effect, spec.concurrent, spec.timeout_s) == ("look", "reads", True, 5)
    assert spec.description == "Look at something.\n\nMore words about it."
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "where to look, continued on a second line"},
            "first": {"type": "integer", "description": "the first line", "minimum": 1, "default": 1},
            "kinds": {
                "anyOf": [{"type": "array", "items": {"enum": ["dir", "file"]}}, {"type": "null"}],
                "description": "what to show",
                "default": None,
            },
            "ratio": {"type": "number", "default": 0.5},
            "extra": {"type": "object", "additionalProperties": {"type": "boolean"}, "default": {}},
        },
        "required": ["path"],
        "additionalProperties": False,
    }


def test_a_struct_is_described_beside_the_arguments() -> None:
    parameters = FunctionTool.of(change).spec.parameters
    assert parameters["properties"] == {"edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}}}
    assert parameters["$defs"]["Edit"]["additionalProperties"] is False


def test_an_undeclared_function_may_do_anything() -> None:
    spec = FunctionTool.of(ping).spec
    assert (spec.effect, spec.concurrent, spec.description) == ("runs", False, "Nothing declared.")
    assert spec.parameters == {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


CHECKS = [
    ("look", '{"path": "a"}', Ready({"path": "a"})),
    ("ping", "", Ready({})),
    ("ping", "  \n", Ready({})),
    ("look", '{"path": "a", "first": 1, "kinds": ["file"], "extra": {"x": true}}', None),
    ("look", '{"path": 3}', "Expected `str`, got `int` - at `$.path`"),
    ("look", '{"path": "a", "first": "2"}', "Expected `int`, got `str` - at `$.first`"),
    ("look", '{"path": "a", "first": 0}', "Expected `int` >= 1 - at `$.first`"),
    ("look", '{"path": "a", "kinds": ["file", "link"]}', "Invalid enum value 'link' - at `$.kinds[1]`"),
    ("look", '{"path": "a", "extra": {"x": 1}}', "Expected `bool`, got `int` - at `$.extra[...]`"),
    ("look", "", "`$.path` is missing. It takes: path (required), first"),
    ("look", '{"pth": "a"}', "`$.path` is missing; `$.pth` is not an argument (did you mean `path`?)"),
    ("ping", '{"x": 1}', "`$.x` is not an argument. It takes: no arguments."),
    ("change", '{"edits": [{"old": "a"}, {"new": "b"}]}', "missing required field `old` - at `$.edits[1]`"),
    ("change", '{"edits": [{"old": "a", "odd": 1}]}', "unknown field `odd` - at `$.edits[0]`"),
    ("look", '{"path": "a"', "not valid JSON: Input data was truncated"),
    ("look", '["a"]', "must be a JSON object, not a list"),
    ("look", "null", "must be a JSON object, not null"),
    ("loook", "{}", "There is no tool named 'loook'. Did you mean look?"),
    ("zzz", "{}", "There is no tool named 'zzz'. There are: look, change, ping."),
]


@pytest.mark.parametrize(("name", "arguments", "expected"), CHECKS)
def test_check(name: str, arguments: str, expected: Ready | str | None) -> None:
    checked = Toolbox([look, change, ping]).check(name, arguments)
    match expected:
        case str():
            assert isinstance(checked, Unfit)
            assert expected in checked.problem
        case None:
            assert isinstance(checked, Ready)
        case _:
            assert checked == expected


def test_offered_by_mode_and_the_same_tuple_every_time() -> None:
    box = Toolbox([look, change, ping])
    assert [spec.name for spec in box.offered("plan")] == ["look"]
    assert [spec.name for spec in box.offered("build")] == ["look", "change", "ping"]
    assert box.offered("build") is box.offered("build")
    with pytest.raises(ConfigError, match="no mode 'x'; known modes: plan, build"):
        box.offered("x")


def test_it_is_the_port_of_the_loop() -> None:
    box: ports.Tools = Toolbox([])
    assert box.offered("build") == ()


async def run(function: Any, arguments: dict[str, Any] | None = None, **limits: int) -> ToolOutcome:
    return await Toolbox([function], **limits).run(function.__name__, arguments or {}, Call())  # type: ignore[arg-type]


async def test_arguments_arrive_typed_and_defaults_are_fresh() -> None:
    assert (await run(change, {"edits": [{"old": "a", "new": "b"}, {"old": "c"}]})).output == "a->b, c->"
    assert (await run(look, {"path": "p", "first": 2})).output == "p from 2 None 0.5 {}"


async def test_a_sync_function_runs_beside_the_loop() -> None:
    call, seen = Call(), []

    def slow(ctx: ToolContext, word: str) -> dict[str, str]:
        seen.append(threading.current_thread() is threading.main_thread())
        ctx.output("from the thread")
        return {"said": word}

    outcome = await Toolbox([slow]).run("slow", {"word": "hi"}, call)
    await asyncio.sleep(0)
    assert (outcome, seen, call.shown) == (ToolOutcome(output='{"said":"hi"}'), [False], ["from the thread"])


async def test_a_failure_gives_output_and_error() -> None:
    async def fail() -> str:
        raise ToolFailure("it broke", output="half of it\n", remedy="Mend it.")

    assert await run(fail) == ToolOutcome(output="half of it\n\nError: it broke Mend it.", outcome="failed")


async def test_a_fault_of_the_world_is_no_bug() -> None:
    async def fail() -> str:
        raise MachineError("the machine is gone")

    assert await run(fail) == ToolOutcome(output="Error: the machine is gone", outcome="failed")


@pytest.mark.parametrize("error", [ValueError("x"), TimeoutError("inner"), StopIteration("s"), AssertionError("a")])
@pytest.mark.parametrize("is_sync", [True, False])
async def test_a_bug_is_reported_as_one(error: Exception, is_sync: bool) -> None:
    def buggy_sync() -> str:
        raise error

    async def buggy() -> str:
        raise error

    outcome = await run(buggy_sync if is_sync else buggy)
    assert outcome.outcome == "failed"
    assert outcome.output.startswith("Internal fault of the tool buggy")
    assert ("RuntimeError" if isinstance(error, StopIteration) else type(error).__name__) in str(outcome.detail["bug"])


async def test_a_broken_journal_and_cancellation_pass() -> None:
    async def broken() -> str:
        raise JournalUnwritable("disk full")

    async def wait() -> str:
        await asyncio.sleep(60)
        return ""

    with pytest.raises(JournalUnwritable):
        await run(broken)
    task = asyncio.create_task(run(wait))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_time_limit_of_async_and_sync() -> None:
    released = threading.Event()

    @tool(effect="reads", timeout_s=0.05)
    async def slow() -> str:
        await asyncio.sleep(60)
        return ""

    @tool(effect="reads", timeout_s=0.05)
    def stuck() -> str:
        released.wait(10)
        return ""

    started = time.monotonic()
    for function in (slow, stuck):
        outcome = await run(function)
        said = f"Error: {function.__name__} was stopped at its time limit of 0.05 s."
        assert outcome == ToolOutcome(output=said, outcome="timeout")
    released.set()
    assert time.monotonic() - started < 5


async def test_results_are_bounded_and_plain() -> None:
    async def flood() -> str:
        return "".join(f"\x1b[31mline {n}\x1b[0m\n" for n in range(100))

    outcome = await run(flood, lines_max=4)
    assert outcome.output == "line 0\nline 1\n[... 676 of 790 bytes left out ...]\nline 98\nline 99\n".replace(
        "676", str(790 - len("line 0\nline 1\nline 98\nline 99\n"))
    )
    assert outcome.original_bytes == 790


async def test_other_results() -> None:
    picture = Image(media_type="image/png", data="AA==")

    async def image() -> Image:
        return picture

    async def whole() -> ToolOutcome:
        return ToolOutcome(output="x", detail={"exit_code": 0})

    assert await run(image) == ToolOutcome(output="", images=(picture,))
    assert await run(whole) == ToolOutcome(output="x", detail={"exit_code": 0})
    assert await run(ping) == ToolOutcome(output="")


def test_functions_that_cannot_be_tools() -> None:
    def bare(x) -> str:  # type: ignore[no-untyped-def]
        return str(x)

    def many(*words: str) -> str:
        return " ".join(words)

    def odd(x: int) -> int:
        """Doc.

        Args:
            y: nothing of that name
        """
        return x

    wrong: list[tuple[Any, str]] = [(bare, "x has no type"), (many, "cannot be given by name"), (odd, "documents y")]
    for function, words in wrong:
        with pytest.raises(TypeError, match=words):
            Toolbox([function])
    with pytest.raises(ConfigError, match="two tools are named 'ping'"):
        Toolbox([ping, ping])


async def test_states_live_with_the_toolbox_and_are_closed() -> None:
    closed: list[bool] = []

    class Held:
        def __init__(self) -> None:
            self.count = 0

        async def close(self) -> None:
            closed.append(True)

    @tool(effect="runs")
    async def hold(ctx: ToolContext) -> str:
        ctx.state(Held).count += 1
        return str(ctx.state(Held).count)

    box = Toolbox([hold])
    assert [(await box.run("hold", {}, Call())).output for _ in range(2)] == ["1", "2"]
    await box.close()
    assert closed == [True]
