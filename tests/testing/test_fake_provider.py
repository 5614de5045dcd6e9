from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from turnwright.app.clock import SystemClock
from turnwright.kernel.history import History
from turnwright.kernel.loop import Turn, TurnOutcome, run_turn
from turnwright.providers.codec import Dialect
from turnwright.providers.dialects import DIALECTS, codec_of
from turnwright.providers.endpoint import Endpoint
from turnwright.providers.http_route import HttpModel, HttpRoute
from turnwright.providers.router import MemoryHealth, Router
from turnwright.providers.script import Call, Expect, Script, Step, Tokens, Truncated
from turnwright.schema.errors import ConfigError
from turnwright.schema.facts import AttemptEnded, ModelReplied, ToolEnded
from turnwright.schema.parts import Usage
from turnwright.schema.routes import Route
from turnwright.schema.settings import Timers
from turnwright.testing.fake_provider import Replies, fake_provider, spawned
from turnwright.testing.ports import FunctionTools, MemoryRecord, ports_for
from turnwright.wire.http import HttpClient


def add(a: int, b: int) -> int:
    return a + b


async def drive(
    url: str, dialect: Dialect, client: HttpClient, *, stream: bool = True
) -> tuple[TurnOutcome, FunctionTools, MemoryRecord]:
    clock = SystemClock()
    routes = {"r": HttpRoute(endpoint=Endpoint(base_url=url), codec=codec_of(dialect))}
    model = HttpModel(client, routes, clock=clock, wall_s=time.time, timers=Timers(), agent="test")
    tools, record = FunctionTools(add), MemoryRecord()
    turn = Turn(conversation_id="c_00000000000000000001", turn_id="t", text="go", history=History("l"))
    router = Router([Route(name="r", model="m", stream=stream)], model, health=MemoryHealth(), wall_s=time.time)
    ports = ports_for(router, tools=tools, clock=clock)
    return await run_turn(turn, ports, record), tools, record


SCRIPT = Script(
    steps=[
        Step(reasoning="hm", text="First.", calls=[Call(name="add", arguments={"a": 1, "b": 2})], repeat=2),
        Step(calls=[Call(name="add", arguments={"a": n, "b": 5}) for n in (3, 4)]),
        Step(text="All of it is done.", usage=Tokens(input=9, output=4)),
    ]
)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "document"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_script_in_every_dialect(dialect: Dialect, stream: bool) -> None:
    async with fake_provider(SCRIPT) as url, HttpClient() as client:
        outcome, tools, record = await drive(f"{url}/any/prefix", dialect, client, stream=stream)
    assert (outcome.reason, outcome.text, outcome.steps) == ("stop", "All of it is done.", 4)
    assert [arguments for _, arguments in tools.ran] == [
        {"a": 1, "b": 2},
        {"a": 1, "b": 2},
        {"a": 3, "b": 5},
        {"a": 4, "b": 5},
    ]
    replies = [fact.message for fact in record.facts if isinstance(fact, ModelReplied)]
    assert [reply.text for reply in replies] == ["First.", "First.", "", "All of it is done."]
    assert "".join(thought.text for thought in replies[0].reasoning) == "hm"
    last = [fact for fact in record.facts if isinstance(fact, AttemptEnded)][-1]
    assert last.usage is not None
    assert (last.usage.input, last.usage.output) == (9, 4)
    calls = [call.id for reply in replies for call in reply.calls]
    assert len(set(calls)) == 4


async def test_many_conversations_at_once_keep_their_places() -> None:
    async with fake_provider(SCRIPT) as url, HttpClient() as client, asyncio.TaskGroup() as group:
        tasks = [group.create_task(drive(url, "openai-chat", client)) for _ in range(20)]
    assert {(task.result()[0].steps, len(task.result()[1].ran)) for task in tasks} == {(4, 4)}


async def test_following_requests_needs_no_tool_results() -> None:
    script = [Step(text="one"), Step(text="two")]
    async with fake_provider(script, follow="requests") as url, HttpClient() as client:
        texts = [(await drive(f"{url}/a", "gemini", client))[0].text for _ in range(3)]
        other = (await drive(f"{url}/b", "gemini", client))[0].text
    assert (texts, other) == (["one", "two", "two"], "one")


async def test_thinking_and_gaps_take_their_time() -> None:
    async with fake_provider([Step(text="a b c d", delay_s=0.1, gap_s=0.02)]) as url, HttpClient() as client:
        _, _, record = await drive(url, "anthropic", client)
    (ended,) = [fact for fact in record.facts if isinstance(fact, AttemptEnded)]
    assert ended.timing.ttft_ms is not None
    assert ended.timing.ttft_ms >= 100
    assert ended.timing.decode_ms is not None
    assert ended.timing.decode_ms >= 60
    assert ended.usage == Usage(input=100, output=1)


async def test_an_unknown_path_is_said_so() -> None:
    async with fake_provider(SCRIPT) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
        writer.write(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 404")
        writer.close()


@pytest.mark.parametrize("step", [Step(fault=Truncated()), Step(expect=Expect(messages=1))], ids=["fault", "expect"])
def test_it_does_not_pretend_to_misbehave_or_to_judge(step: Step) -> None:
    with pytest.raises(ConfigError, match="Step 1 has `expect` or `fault`"):
        Replies([step])


async def test_it_runs_in_a_process_of_its_own() -> None:
    options = (
        "--steps",
        "3",
        "--tool",
        "add",
        "--arguments",
        '{"a":1,"b":1}',
        "--calls",
        "2",
        "--text",
        "x ",
        "--deltas",
        "4",
    )
    with spawned(*options) as url:
        async with HttpClient() as client:
            outcome, _, record = await drive(url, "openai-responses", client)
    results = sum(isinstance(fact, ToolEnded) for fact in record.facts)
    assert (outcome.text, outcome.steps, results) == ("x x x x ", 4, 6)


async def test_a_script_file(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text("- {text: from a file}\n")
    with spawned("--script", str(path)) as url:
        async with HttpClient() as client:
            outcome, _, _ = await drive(url, "ollama", client)
    assert outcome.text == "from a file"


def test_a_bad_script_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text("- {txt: oops}\n")
    command = [sys.executable, "-m", "turnwright.testing.fake_provider", "--script", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 2
    assert "unknown field `txt`" in ended.stderr
    assert "Traceback" not in ended.stderr
