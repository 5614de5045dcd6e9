"""Which calls run together, which are merged, which never run; and that the policy is really consulted."""

from __future__ import annotations

import asyncio

import pytest
from driving import calling, drive, look, turn_of

from turnwright.kernel.dispatch import plan
from turnwright.kernel.ports import Block, Ready, Unfit
from turnwright.providers.script import Call, Step, Truncated
from turnwright.schema.facts import ToolEnded
from turnwright.schema.limits import Dispatch
from turnwright.schema.messages import ToolCall, ToolResults
from turnwright.schema.prompt import ToolSpec
from turnwright.schema.verdicts import Effect
from turnwright.testing.clock import FakeClock

KINDS: list[tuple[str, Effect, bool]] = [("read", "reads", False), ("write", "writes", False), ("fetch", "runs", True)]

SPECS = {
    name: ToolSpec(name=name, description="", parameters={}, effect=effect, concurrent=concurrent)
    for name, effect, concurrent in KINDS
}

PLANS: list[tuple[str, str, list[str], list[str]]] = [
    ("reads together", "r1 r2 r3", ["r1 r2 r3"], []),
    ("an effect runs alone", "r1 w1 r2", ["r1", "w1", "r2"], []),
    ("effects one by one", "w1 w2", ["w1", "w2"], []),
    ("declared concurrent joins", "r1 f1 f2 w1", ["r1 f1 f2", "w1"], []),
    ("identical reads are merged", "r1 r1 r2", ["r1+1 r2"], []),
    ("but not across an effect", "r1 w1 r1", ["r1", "w1", "r1"], []),
    ("effects are never merged", "w1 w1 f1 f1", ["w1", "w1", "f1 f1"], []),
    ("unfit calls never run", "r1 x1 r2", ["r1 r2"], ["x1"]),
    ("blocked calls never run", "r1 b1 r2", ["r1 r2"], ["b1"]),
    ("nothing", "", [], []),
]


@pytest.mark.parametrize(("asked", "batches", "refused"), [row[1:] for row in PLANS], ids=[row[0] for row in PLANS])
def test_plans(asked: str, batches: list[str], refused: list[str]) -> None:
    names = {"r": "read", "w": "write", "f": "fetch", "x": "read", "b": "read"}
    calls = [
        ToolCall(id=f"{number}", name=names[word[0]], arguments=f'{{"n":"{word}"}}')
        for number, word in enumerate(asked.split())
    ]
    words = dict(zip((call.id for call in calls), asked.split(), strict=True))
    checked = {call.id: Unfit("no") if words[call.id][0] == "x" else Ready({}) for call in calls}
    blocked = {call.id: Block(guard="g", why="w", call_id=call.id) for call in calls if words[call.id][0] == "b"}
    planned, not_run = plan(calls, checked, SPECS, blocked)
    told = [
        " ".join(words[one.call.id] + (f"+{len(one.same)}" if one.same else "") for one in batch) for batch in planned
    ]
    assert (told, [words[one.call.id] for one in not_run]) == (batches, refused)


class Workshop:
    """Counts how many of its tools are at work at once."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock, self.now, self.most = clock, 0, 0

    async def work(self, seconds: float, tag: str = "") -> str:
        """Work."""
        self.now += 1
        self.most = max(self.most, self.now)
        await self.clock.sleep(seconds)
        self.now -= 1
        return f"done {tag}"


@pytest.mark.parametrize(("width", "most", "seconds"), [(1, 1, 8.0), (4, 4, 2.0), (0, 8, 1.0)])
async def test_the_width_of_a_batch(width: int, most: int, seconds: float) -> None:
    clock = FakeClock(auto=True)
    shop = Workshop(clock)
    steps = [
        Step(calls=[Call(name="work", arguments={"seconds": 1.0, "tag": str(n)}) for n in range(8)]),
        Step(text="ok"),
    ]
    turn = turn_of(dispatch=Dispatch(max_concurrent=width))
    driven = await drive(steps, shop.work, turn=turn, clock=clock)
    assert (shop.most, clock.monotonic()) == (most, seconds)
    results = driven.history.messages[2]
    assert isinstance(results, ToolResults)
    assert [result.output for result in results.results] == [f"done {n}" for n in range(8)]


async def test_results_are_recorded_as_they_end_and_enter_history_in_call_order() -> None:
    clock = FakeClock(auto=True)
    shop = Workshop(clock)
    steps = [
        Step(calls=[Call(name="work", arguments={"seconds": s, "tag": str(s)}) for s in (3.0, 1.0, 2.0)]),
        Step(text="ok"),
    ]
    driven = await drive(steps, shop.work, clock=clock)
    ended = [fact for fact in driven.facts if isinstance(fact, ToolEnded)]
    assert [fact.duration_ms for fact in ended] == [1000.0, 2000.0, 3000.0]
    results = driven.history.messages[2]
    assert isinstance(results, ToolResults)
    assert [result.output for result in results.results] == ["done 3.0", "done 1.0", "done 2.0"]


async def test_identical_reads_run_once_and_each_call_gets_the_result() -> None:
    driven = await drive([calling(count=3), Step(text="ok")])
    assert driven.story.count("tool.started look") == 1
    ended = [fact for fact in driven.facts if isinstance(fact, ToolEnded)]
    assert [fact.call_id for fact in ended] == ["call_1_0", "call_1_1", "call_1_2"]
    assert [fact.detail for fact in ended] == [{}, {"shared_with": "call_1_0"}, {"shared_with": "call_1_0"}]


def order_of(story: list[str]) -> list[str]:
    return [line for line in story if line.startswith(("model.replied", "tool.started"))]


async def test_eager_reads_start_while_the_reply_streams_and_effects_wait() -> None:
    def change() -> str:
        """Change."""
        return "changed"

    steps = [
        Step(calls=[Call(name="look"), Call(name="change"), Call(name="look", arguments={"path": "b"})]),
        Step(text="ok"),
    ]
    stories = {}
    for eager in (False, True):
        turn = turn_of(dispatch=Dispatch(eager=eager))
        driven = await drive(steps, look, change, effects={"change": "writes"}, turn=turn)
        stories[eager] = order_of(driven.story)
        assert driven.story[-1] == "turn.ended stop"
    late = ["tool.started look", "tool.started change", "tool.started look"]
    replied = "model.replied '' ['look', 'change', 'look']"
    assert stories[False][:4] == [replied, *late]
    assert stories[True][:4] == [late[0], replied, *late[1:]]


async def test_what_was_started_early_for_a_reply_that_failed_belongs_to_no_call() -> None:
    steps = [
        Step(calls=[Call(name="look"), Call(name="look", arguments={"path": "b"})], fault=Truncated(after=2)),
    ]
    driven = await drive(steps, turn=turn_of(dispatch=Dispatch(eager=True)))
    assert driven.story[-1] == "turn.ended provider-error"
    assert [type(message).__name__ for message in driven.history.messages] == ["UserMessage"]


async def test_a_tool_that_raises_ends_the_turn_loudly_and_stops_its_neighbours() -> None:
    stopped = asyncio.Event()

    class Raising:
        """A registry with a bug: `run` must never raise."""

        def __init__(self) -> None:
            from turnwright.testing.ports import FunctionTools

            self._tools = FunctionTools(look)
            self.offered, self.check = self._tools.offered, self._tools.check

        async def run(self, name: str, arguments: dict[str, str], context: object) -> object:
            if arguments["path"] == "b":
                raise ZeroDivisionError("in the registry")
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
            return None

    steps = [Step(calls=[Call(name="look"), Call(name="look", arguments={"path": "b"})])]
    with pytest.raises(ZeroDivisionError):
        await drive(steps, tools=Raising())
    assert stopped.is_set()
