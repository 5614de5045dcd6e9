"""bash, bash_output and bash_kill as the turn loop calls them: through a toolbox, on a real machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from turnwright.machine.keeper import Keeper
from turnwright.machine.local import open_local
from turnwright.machine.port import Captured, Machine
from turnwright.schema.tools import Delegation, Detail, ToolOutcome
from turnwright.tools.registry import Toolbox
from turnwright.tools.shell import JOBS_MAX, bash, bash_kill, bash_output, show


class Call:
    turn_id = "t1"
    step_id = "t1#0"
    call_id = "c1"

    def __init__(self) -> None:
        self.shown: list[str] = []

    def output(self, text: str, stream: Literal["stdout", "stderr"] = "stdout") -> None:
        self.shown.append(text)

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        return None

    async def delegate(self, wanted: Delegation) -> ToolOutcome:
        raise AssertionError("nobody is sent here")


@pytest.fixture
async def toolbox(machine: Machine) -> AsyncIterator[Toolbox]:
    toolbox = Toolbox([bash, bash_output, bash_kill], machine=machine)
    yield toolbox
    await toolbox.close()


async def call(toolbox: Toolbox, name: str, context: Call | None = None, **arguments: Any) -> ToolOutcome:
    return await toolbox.run(name, arguments, context or Call())


RAN: Detail = {"sandbox": "none", "exit_code": 0}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo hello", ToolOutcome(output="hello", detail=RAN)),
        ("true", ToolOutcome(output="(no output)", detail=RAN)),
        ("cat", ToolOutcome(output="(no output)", detail=RAN)),
        (
            "echo partial; echo why >&2; exit 4",
            ToolOutcome(output="partial\nwhy\n[exit code 4]", outcome="failed", detail=RAN | {"exit_code": 4}),
        ),
        (
            "false",
            ToolOutcome(output="(no output)\n[exit code 1]", outcome="failed", detail=RAN | {"exit_code": 1}),
        ),
        (
            "echo x; kill -SEGV $$",
            ToolOutcome(
                output="x\n[exit code 139: ended by signal 11]", outcome="failed", detail=RAN | {"exit_code": 139}
            ),
        ),
        (
            r"printf '\033[31mred\033[0m \033]0;title\007bell\a\n50%%\r100%%\n'",
            ToolOutcome(output="red bell␇\n50%\n100%", detail=RAN),
        ),
        (r"printf 'bad \xff\xfe utf'", ToolOutcome(output="bad �� utf", detail=RAN)),
    ],
)
async def test_what_the_model_reads(toolbox: Toolbox, command: str, expected: ToolOutcome) -> None:
    assert await call(toolbox, "bash", command=command) == expected


async def test_a_timeout_gives_the_output_so_far(toolbox: Toolbox) -> None:
    outcome = await call(toolbox, "bash", command="echo begun; sleep 100", timeout_s=1)
    assert outcome == ToolOutcome(
        output="begun\n[timed out after 1 s: the command and all it started were killed; "
        "ask for more (timeout_s, at most 600) or run it in the background]",
        outcome="timeout",
        detail=RAN | {"exit_code": 143},
    )


async def test_processes_left_running_are_told(toolbox: Toolbox) -> None:
    outcome = await call(toolbox, "bash", command="sleep 100 >/dev/null 2>&1 & echo out")
    assert outcome == ToolOutcome(
        output="out\n[1 process(es) that it left running were killed; use background for what should live on]",
        detail=RAN,
    )


@pytest.mark.parametrize(
    ("command", "size"),
    [
        ("seq 100000", 588_895),
        ("head -c 300000 /dev/zero | tr '\\0' x", 300_000),
        ("seq 5000", 23_893),
        ("yes é | head -c 69999", 69_999),
    ],
)
async def test_long_output_is_cut_and_kept(toolbox: Toolbox, tmp_path: Path, command: str, size: int) -> None:
    outcome = await call(toolbox, "bash", command=f"{command}; exit 3")
    path = tmp_path / "spool" / "output-0001.txt"
    assert outcome.detail == RAN | {"exit_code": 3, "output_path": str(path)}
    assert path.stat().st_size == size
    assert outcome.original_bytes == size
    assert len(outcome.output.encode()) <= 50 * 1024 and outcome.output.count("\n") <= 2_000
    assert "left out" in outcome.output
    assert outcome.output.endswith(f"[all {size:,} bytes are in {path}]\n[exit code 3]")
    whole = path.read_text()
    assert outcome.output.startswith(whole[:1_500])
    assert whole[-1_500:].strip() in outcome.output
    content = await toolbox._machine.read(str(path))  # type: ignore[union-attr]
    assert content.data.decode() == whole


async def test_binary_output_is_cut_as_well(toolbox: Toolbox) -> None:
    outcome = await call(toolbox, "bash", command="head -c 500000 /dev/urandom; exit 3")
    assert len(outcome.output.encode()) <= 50 * 1024
    assert outcome.output.endswith("[exit code 3]") and "output-0001.txt" in outcome.output


@pytest.mark.parametrize(
    "text", ["yes", "setsid -f sleep 100; sleep 100", "trap '' TERM; while :; do :; done", "cat /dev/zero"]
)
async def test_a_cancelled_command_is_gone_within_a_second(toolbox: Toolbox, text: str) -> None:
    context = Call()
    task = asyncio.create_task(call(toolbox, "bash", context, command=f"echo begun; {text}"))
    async with asyncio.timeout(5):
        while not context.shown:
            await asyncio.sleep(0.01)
    begun = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - begun < 1


async def test_live_output_is_plain_and_bounded(toolbox: Toolbox) -> None:
    context = Call()
    outcome = await call(toolbox, "bash", context, command=r"printf '\033[1mone\033[0m\n'; sleep 0.3; echo two")
    assert "".join(context.shown) == "one\ntwo\n" and outcome.output == "one\ntwo"
    assert len(context.shown) == 2

    context = Call()
    await call(toolbox, "bash", context, command="head -c 50000000 /dev/zero | tr '\\0' x")
    assert sum(map(len, context.shown)) < 1_000_000
    assert "bytes not shown" in "".join(context.shown)


async def test_a_background_command(toolbox: Toolbox) -> None:
    script = "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; exit 5"
    started = await call(toolbox, "bash", command=script, background=True)
    assert started.output.startswith("Runs in the background as bg1.")
    assert (started.detail["id"], started.detail["sandbox"]) == ("bg1", "none")
    await asyncio.sleep(0.3)
    running: Detail = {"running": True}
    assert await call(toolbox, "bash_output", id="bg1") == ToolOutcome(output="one\n[still running]", detail=running)
    again = await call(toolbox, "bash_output", id="bg1")
    assert again == ToolOutcome(output="(nothing new)\n[still running]", detail=running)
    await call(toolbox, "bash", command="touch go")
    await asyncio.sleep(0.4)
    ended = RAN | {"running": False, "exit_code": 5}
    assert await call(toolbox, "bash_output", id="bg1") == ToolOutcome(output="two\n[exit code 5]", detail=ended)
    killed = await call(toolbox, "bash_kill", id="bg1")
    assert killed.output == "bg1 had already ended, with exit code 5."


async def test_a_background_command_is_killed(toolbox: Toolbox) -> None:
    await call(toolbox, "bash", command="setsid -f sleep 100; echo up; sleep 100", background=True)
    killed = await call(toolbox, "bash_kill", id="bg1")
    assert killed == ToolOutcome(output="bg1 and what it started was killed.", detail=RAN | {"exit_code": 143})
    assert "[killed]" in (await call(toolbox, "bash_output", id="bg1")).output
    unknown = await call(toolbox, "bash_kill", id="bg7")
    assert unknown == ToolOutcome(output="Error: No background command 'bg7'; there are: bg1.", outcome="failed")


async def test_background_commands_are_counted_and_end_with_the_toolbox(toolbox: Toolbox) -> None:
    for _ in range(JOBS_MAX):
        assert (await call(toolbox, "bash", command="sleep 100", background=True)).outcome == "ok"
    refused = await call(toolbox, "bash", command="sleep 100", background=True)
    assert refused.outcome == "failed" and "kill one first" in refused.output
    await call(toolbox, "bash_kill", id="bg3")
    assert (await call(toolbox, "bash", command="sleep 100", background=True)).detail["id"] == f"bg{JOBS_MAX + 1}"
    begun = time.monotonic()
    await toolbox.close()
    assert time.monotonic() - begun < 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"command": "a\0b"}, "NUL"),
        ({"command": "x" * 200_000}, "could not be started: Argument list too long. Write it to a file"),
    ],
)
async def test_commands_that_cannot_be_given(toolbox: Toolbox, arguments: dict[str, Any], problem: str) -> None:
    outcome = await call(toolbox, "bash", **arguments)
    assert outcome.outcome == "failed" and problem in outcome.output


async def test_sh_serves_where_there_is_no_bash(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    keeper = Keeper()
    for names, expected in ((("sh",), "0"), ((), "Error: sh could not be started: No such file or directory.")):
        env = {"PATH": str(tmp_path / "bin") if names else str(tmp_path)}
        machine = open_local(tmp_path, keeper=keeper, env=env, spool=tmp_path / "spool")
        toolbox = Toolbox([bash], machine=machine)
        assert (await call(toolbox, "bash", command="echo $#")).output == expected
        await machine.close()
    await keeper.close()


def test_the_model_is_told_where_it_reads_what_confines_commands() -> None:
    spec = Toolbox([bash]).offered("build")[0]
    assert "What confines it is said in the system prompt." in spec.description
    assert spec.parameters["properties"]["timeout_s"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 600,
        "default": 120,
        "description": "When to kill it, in seconds; ask for more where a build or a test suite needs it.",
    }
    assert [spec.name for spec in Toolbox([bash, bash_output, bash_kill]).offered("plan")] == ["bash_output"]


@pytest.mark.parametrize(
    ("captured", "since", "expected"),
    [
        (Captured(head=b"abc", size=3), 0, ("abc", False)),
        (Captured(head=b"abc", size=3), 2, ("c", False)),
        (Captured(head=b"abc", tail=b"def", size=6), 4, ("ef", False)),
        (Captured(head=b"abc", tail=b"def", size=6), 6, ("", False)),
        (
            Captured(head=b"abc", tail=b"xyz", size=1_000, spilled_to="/f", spilled_bytes=1_000),
            1,
            ("bc\n[... about 994 of 999 bytes left out ...]\nxyz\n[all 1,000 bytes are in /f]", True),
        ),
        (
            Captured(head=b"abc", tail=b"xyz", size=1_000, spilled_to="/f", spilled_bytes=500, spill_fault="full"),
            500,
            ("[... about 497 of 500 bytes left out ...]\nxyz\n[the first 500 of 1,000 bytes are in /f (full)]", True),
        ),
        (
            Captured(head=b"abc", tail=b"xyz", size=1_000, spill_fault="no room"),
            998,
            ("yz", False),
        ),
    ],
)
def test_show(captured: Captured, since: int, expected: tuple[str, bool]) -> None:
    assert show(captured, since) == expected
