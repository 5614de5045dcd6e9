from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from turnwright.schema.tools import ToolOutcome, Unfit
from turnwright.tools.registry import Toolbox

Run = Callable[..., Awaitable[ToolOutcome]]


async def test_todo_replaces_the_list(run: Run) -> None:
    items = [{"text": "look", "status": "done"}, {"text": "mend", "status": "in_progress"}, {"text": "test"}]
    outcome = await run("todo", items=items)
    assert outcome == ToolOutcome(output="[x] look\n[>] mend\n[ ] test", detail={"items": 3, "done": 1})
    assert (await run("todo", items=[])).output == "(the list is empty)"
    two = await run("todo", items=[{"text": "a", "status": "in_progress"}, {"text": "b", "status": "in_progress"}])
    assert two.output == "Error: 2 items are in_progress. Work on one at a time."


def test_todo_takes_known_states_only(box: Toolbox) -> None:
    unfit = box.check("todo", '{"items": [{"text": "a", "status": "ready"}]}')
    assert isinstance(unfit, Unfit)
    assert "Invalid enum value 'ready' - at `$.items[0].status`" in unfit.problem


async def test_ask_user(run: Run, call: Any) -> None:
    nobody = await run("ask_user", question="Which?", choices=["a", "b"])
    assert nobody.outcome == "failed"
    assert nobody.output.startswith("Error: Nobody can answer now, which counts as a no.")
    call.answer = "b"
    assert await run("ask_user", question="Which?") == ToolOutcome(output="b")
    assert call.asked == [("Which?", ("a", "b")), ("Which?", ())]


def test_the_standard_tools(box: Toolbox) -> None:
    effects = {spec.name: spec.effect for spec in box.offered("build")}
    assert effects == {
        "read": "reads",
        "write": "writes",
        "edit": "writes",
        "patch": "writes",
        "ls": "reads",
        "glob": "reads",
        "grep": "reads",
        "bash": "runs",
        "bash_output": "reads",
        "bash_kill": "runs",
        "todo": "reads",
        "ask_user": "asks",
        "task": "runs",
    }
    assert [spec.name for spec in box.offered("plan")] == ["read", "ls", "glob", "grep", "bash_output", "todo"]
    assert all(spec.description for spec in box.offered("build"))
    assert all("description" in p for s in box.offered("build") for p in s.parameters["properties"].values())
