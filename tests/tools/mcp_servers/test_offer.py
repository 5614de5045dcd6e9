"""What a conversation is offered of its servers' tools, and what becomes of calls, results and names."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest
from serving import ENV, Ask, Serving, names

from turnwright.schema.facts import Note, ToolEnded
from turnwright.schema.mcp import McpServer
from turnwright.schema.messages import Image
from turnwright.schema.prompt import ToolSpec
from turnwright.schema.tools import ToolOutcome, Unfit
from turnwright.tools.mcp.arguments import problem_of
from turnwright.tools.mcp.names import tool_name
from turnwright.tools.mcp.texts import remote_tool

SAY = "mcp__s__say"


async def test_a_tool_of_a_server_is_like_any_other(serving: Serving, ask: Ask) -> None:
    await serving.ready(settings=McpServer(call_s=7))
    _, toolbox = serving.offer()
    (_, spec) = toolbox.offered("build")
    assert spec == ToolSpec(
        name=SAY,
        description="[MCP server s] Say it again.",
        parameters={"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
        effect="runs",
        timeout_s=7.0,
    )
    assert names(toolbox, "plan") == ["mcp_tools"]
    outcome = await ask(toolbox, SAY, word="hi")
    assert outcome.output.startswith("hi from ")
    assert (outcome.outcome, outcome.detail) == ("ok", {"mcp_server": "s"})


async def test_arguments_are_held_against_its_schema_first(serving: Serving) -> None:
    await serving.ready("die")
    _, toolbox = serving.offer()
    names(toolbox)
    assert toolbox.check(SAY, '{"word": 3, "more": 1}') == Unfit(
        f"The arguments of {SAY} do not fit its schema: `$.word`: 3 is not of type 'string'. It takes: word."
    )


@pytest.mark.parametrize("effect", ["reads", "runs"])
async def test_what_it_says_of_its_effects_counts_where_it_is_believed(serving: Serving, effect: str) -> None:
    await serving.ready(settings=McpServer(trust_annotations=effect == "reads"))
    _, toolbox = serving.offer()
    assert [spec.effect for spec in toolbox.offered("build")] == ["reads", effect]
    assert len(toolbox.offered("plan")) == (2 if effect == "reads" else 1)


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        (("fails",), ToolOutcome(output="no hi here", outcome="failed", detail={"mcp_server": "s"})),
        (
            ("image",),
            ToolOutcome(
                output="look\n\n[an image, image/tiff: cannot be shown]",
                images=(Image(media_type="image/png", data="iVBORw0K"),),
                detail={"mcp_server": "s"},
            ),
        ),
        (("structured",), ToolOutcome(output='{"sum":3}', detail={"mcp_server": "s"})),
        (("escapes", "3"), ToolOutcome(output="red ␇xxx", detail={"mcp_server": "s"})),
    ],
)
async def test_results(serving: Serving, ask: Ask, way: tuple[str, ...], expected: ToolOutcome) -> None:
    await serving.ready(*way)
    _, toolbox = serving.offer()
    assert await ask(toolbox, SAY, word="hi") == expected


async def test_a_long_result_is_shortened_like_any(serving: Serving, ask: Ask) -> None:
    await serving.ready("escapes", "5000000")
    _, toolbox = serving.offer()
    outcome = await ask(toolbox, SAY, word="hi")
    assert len(outcome.output) < 52_000
    assert outcome.original_bytes == 5_000_007
    assert "bytes left out" in outcome.output


async def test_its_environment_is_clean(serving: Serving, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "not for servers")
    await serving.ready("env", settings=McpServer(env={"GIVEN": "yes"}))
    _, toolbox = serving.offer()
    seen = msgspec.json.decode((await ask(toolbox, SAY, word="")).output)
    assert {key: value for key, value in seen.items() if key != "LC_CTYPE"} == {**ENV, "GIVEN": "yes"}


async def test_only_what_is_allowed_is_offered(serving: Serving) -> None:
    await serving.ready("many", "6", settings=McpServer(allow=("t*", "say"), deny=("t1", "*2")))
    _, toolbox = serving.offer()
    assert names(toolbox) == ["mcp_tools", SAY, "mcp__s__t0", "mcp__s__t3", "mcp__s__t4"]
    _, toolbox = serving.offer(include=["read", "mcp__s__t*"])
    assert names(toolbox) == ["mcp_tools", "mcp__s__t0", "mcp__s__t3", "mcp__s__t4"]


async def test_a_tool_that_nobody_can_use_is_left_out_and_named(serving: Serving) -> None:
    server = await serving.ready("unfit")
    assert [each.name for each in server.tools] == ["say"]
    assert server.unfit == ("huge: its schema has 100,034 bytes; at most 65,536 are taken",)


@pytest.mark.parametrize("schema", [{"type": "array"}, None, "object"])
def test_a_tool_takes_an_object(schema: Any) -> None:
    assert remote_tool({"name": "x\x1b[31m", "inputSchema": schema}) == "x: its arguments are no JSON object"


async def test_servers_that_come_later_join_behind_and_say_so(serving: Serving) -> None:
    await serving.ready(name="one")
    two = serving.start("many", "2", name="two")
    offer, toolbox = serving.offer()
    before = toolbox.offered("build")
    assert toolbox.offered("build") is before
    assert [spec.name for spec in before] == ["mcp_tools", "mcp__one__say"]
    await two.settled(20)
    after = toolbox.offered("build")
    assert after[:2] == before
    assert [spec.name for spec in after[2:]] == ["mcp__two__say", "mcp__two__t0"]
    news = [msgspec.structs.replace(note, text=note.text.partition(" after")[0]) for note in offer.news()]
    assert news == [
        Note(
            code="mcp",
            text="the MCP server one is ready with 1 tools",
            data={"server": "one", "state": "ready", "tools": 1},
        ),
        Note(
            code="mcp",
            text="the MCP server two is ready",
            data={"server": "two", "state": "ready", "tools": 2, "held": 0},
        ),
    ]
    assert offer.news() == []


async def test_many_tools_are_listed_and_brought_in_by_name(serving: Serving, ask: Ask) -> None:
    await serving.ready(name="few")
    await serving.ready("many", "50", name="many")
    offer, toolbox = serving.offer(offered_max=10)
    assert names(toolbox) == ["mcp_tools", "mcp__few__say"]
    outcome = await ask(toolbox, "mcp_tools", query="t4", bring_in=[])
    assert outcome.output.splitlines()[:4] == [
        "few: ready, 1 tools",
        "many: ready, 50 tools",
        "- mcp__many__t4 (not offered: bring it in): t4",
        "- mcp__many__t40 (not offered: bring it in): t40",
    ]
    brought = await ask(toolbox, "mcp_tools", query="nothing", bring_in=["mcp__many__t7", "mcp__many__t99"])
    assert brought == ToolOutcome(
        output="few: ready, 1 tools\nmany: ready, 50 tools\nUnknown, so not brought in: mcp__many__t99.",
        detail={"brought_in": "mcp__many__t7"},
    )
    assert names(toolbox) == ["mcp_tools", "mcp__few__say", "mcp__many__t7"]
    assert (await ask(toolbox, "mcp__many__t7")).output.startswith(" from ")

    again, taken_up = serving.offer(offered_max=10)
    again.recall(ToolEnded(name="mcp_tools", outcome="ok", output="", duration_ms=1, detail=brought.detail))
    assert names(taken_up) == ["mcp_tools", "mcp__few__say", "mcp__many__t7"]
    await offer.close()


async def test_asking_for_tools_waits_for_servers_that_start(serving: Serving, ask: Ask) -> None:
    serving.start()
    _, toolbox = serving.offer()
    assert names(toolbox) == ["mcp_tools"]
    assert (await ask(toolbox, "mcp_tools")).output == "s: ready, 1 tools\n- mcp__s__say: Say it again."
    assert names(toolbox) == ["mcp_tools", SAY]


async def test_nobody_waits_for_a_server_that_hangs(serving: Serving) -> None:
    began = time.monotonic()
    serving.start("hang-initialize")
    _, toolbox = serving.offer()
    assert names(toolbox) == ["mcp_tools"]
    assert time.monotonic() - began < 0.2
    await asyncio.sleep(0.3)
    began = time.monotonic()
    await serving.close()
    assert time.monotonic() - began < 1.5


@pytest.mark.parametrize(
    ("server", "tool", "taken", "name"),
    [
        ("files", "read-file", (), "mcp__files__read-file"),
        ("my files", "read", (), "mcp__my_files__read_b8acbb2a"),
        ("a", "b__c", ("mcp__a__b__c",), "mcp__a__b__c_c5bfbbd0"),
        ("s" * 40, "t" * 40, (), "mcp__ssssssssssssssssssssssssssssssssssssssss__tttttttt_c9a0aa10"),
        ("größe", "日本", (), "mcp__gr__e____"),
    ],
)
def test_names(server: str, tool: str, taken: tuple[str, ...], name: str) -> None:
    made = tool_name(server, tool, taken)
    assert made.startswith(name[:-8])
    assert len(made) <= 64
    assert made.replace("-", "_").isidentifier()


LAUGHS: dict[str, Any] = {
    "$defs": {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 8} for n in range(30)} | {"l30": {}},
    "$ref": "#/$defs/l0",
}


@pytest.mark.parametrize(
    "schema",
    [
        LAUGHS,
        {"properties": {"a": {"pattern": "(a+)+$"}}},
        {"patternProperties": {"(a+)+$": {"type": "null"}}},
        {"$ref": "http://127.0.0.1:1/schema"},
        {"$ref": "#"},
        {"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "(a+)+$"}}},
        {"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"a": {"pattern": "(a+)+$"}}},
        {"$id": {}, "properties": {}},
        {"properties": 3},
        {"type": ["object", 3]},
    ],
)
def test_no_schema_reaches_out_or_runs_away(schema: dict[str, Any]) -> None:
    began = time.monotonic()
    assert problem_of({"a": "a" * 60 + "!"}, schema) == ""
    assert time.monotonic() - began < 1
