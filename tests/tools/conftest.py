from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from serving import Ask, Serving
from ssh_server import SshServer, ssh_server

from turnwright.config.tool_environment import PASSED
from turnwright.machine.keeper import Keeper
from turnwright.machine.local import open_local
from turnwright.machine.port import Machine
from turnwright.machine.ssh.remote import open_ssh
from turnwright.schema.tools import Delegation, ToolOutcome, Unfit
from turnwright.tools.registry import Toolbox
from turnwright.tools.standard import standard_tools

ENV = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"}

__all__ = ["ssh_server"]

Run = Callable[..., Awaitable[ToolOutcome]]


class Call:
    """What the loop hands over, as simple as can be."""

    def __init__(self, answer: str | None = None) -> None:
        self.turn_id, self.step_id, self.call_id = "t1", "t1#0", "call_1"
        self.answer = answer
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def output(self, text: str, stream: Literal["stdout", "stderr"] = "stdout") -> None: ...

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        self.asked.append((question, tuple(choices)))
        return self.answer

    async def delegate(self, wanted: Delegation) -> ToolOutcome:
        raise AssertionError("nobody is sent here")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.slow)])
async def machine(request: pytest.FixtureRequest, workspace: Path, tmp_path: Path) -> AsyncIterator[Machine]:
    """The same tests for every machine: a tool must not notice where it works."""
    keeper = Keeper()
    machine: Machine
    if request.param == "local":
        machine = open_local(workspace, keeper=keeper, env=ENV, spool=tmp_path / "spool")
    else:
        server: SshServer = request.getfixturevalue("ssh_server")
        passed = tuple(PASSED)
        machine = await open_ssh(server.host, str(workspace), passed=passed, fixed={}, spool=str(tmp_path / "spool"))
    yield machine
    await machine.close()
    await keeper.close()


@pytest.fixture
async def box(machine: Machine) -> AsyncIterator[Toolbox]:
    box = Toolbox(standard_tools(), machine=machine)
    yield box
    await box.close()


@pytest.fixture
def call() -> Call:
    return Call()


@pytest.fixture
def run(box: Toolbox, call: Call) -> Run:
    """A call as the loop makes it: checked, then run."""

    async def run(name: str, **arguments: Any) -> ToolOutcome:
        checked = box.check(name, msgspec.json.encode(arguments).decode())
        assert not isinstance(checked, Unfit), checked.problem
        return await box.run(name, checked.arguments, call)

    return run


@pytest.fixture
async def serving(tmp_path: Path) -> AsyncIterator[Serving]:
    """MCP servers."""
    keeper = Keeper()
    serving = Serving(keeper, tmp_path)
    yield serving
    await serving.close()
    await keeper.close()


@pytest.fixture
def ask(call: Call) -> Ask:
    """A call in any toolbox, as the loop makes it: offered, checked, run."""

    async def ask(toolbox: Toolbox, name: str, **arguments: object) -> ToolOutcome:
        toolbox.offered("build")
        checked = toolbox.check(name, msgspec.json.encode(arguments).decode())
        assert not isinstance(checked, Unfit), checked.problem
        return await toolbox.run(name, checked.arguments, call)

    return ask
