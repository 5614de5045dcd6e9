"""Test what you build with a model that follows a script, and objects where the run does not.

python examples/scripted_model.py
pytest examples/scripted_model.py
"""

import asyncio
import tempfile
from pathlib import Path

from turnwright import Agent
from turnwright.testing import Call, Expect, ScriptedModel, Step


async def add_a_licence(model: ScriptedModel, workspace: Path, data_dir: Path) -> str:
    """What is under test: here, a prompt and the standard tools."""
    agent = Agent(model, workspace=workspace, data_dir=data_dir)
    answer = await agent.run("Add a LICENSE file with the MIT licence.")
    return answer.reason


def test_a_licence_is_added(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    model = ScriptedModel(
        [
            Step(
                expect=Expect(user_contains="MIT licence", tools_include=["write"]),
                calls=[Call(name="write", arguments={"path": "LICENSE", "content": "MIT License\n"})],
            ),
            Step(expect=Expect(result_contains="LICENSE"), text="Added."),
        ]
    )
    assert asyncio.run(add_a_licence(model, tmp_path / "work", tmp_path / "data")) == "stop"
    assert (tmp_path / "work" / "LICENSE").read_text() == "MIT License\n"
    model.assert_complete()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        test_a_licence_is_added(Path(folder))
    print("the licence was added")
