"""Skills: found by their heads, listed by a line, read on use."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnwright import Agent
from turnwright.app.skills import Skill, Skills, skills_for
from turnwright.config.folders import folders_of
from turnwright.config.trust import Trust, trust_in
from turnwright.providers.script import Call, Step
from turnwright.providers.scripted import ScriptedModel
from turnwright.schema.messages import ToolResults


def trusted(workspace: Path) -> Trust:
    """By somebody who vouches for it as it is."""
    return trust_in(workspace, folders_of({"TURNWRIGHT_HOME": "/nonexistent"}), everything=True)


def put(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)


RELEASE = "---\nname: release\ndescription: >-\n  How a release\n  is made.\n---\nTag it, then wait.\n"


def test_those_of_the_user_go_before_those_of_the_project(tmp_path: Path) -> None:
    user, work = tmp_path / "user", tmp_path / "work"
    put(user / "skills" / "release", RELEASE)
    put(work / ".turnwright" / "skills" / "release", RELEASE.replace("Tag", "Never tag"))
    put(work / ".claude" / "skills" / "review", "---\ndescription: How to review.\n---\nRead it twice.")
    found = skills_for(work, user, trusted(work))
    assert found == Skills(
        found=(
            Skill(name="release", description="How a release is made.", body="Tag it, then wait.", folder=""),
            Skill(name="review", description="How to review.", body="Read it twice.", folder=".claude/skills/review"),
        )
    )
    assert found.section.splitlines()[1:] == ["- release: How a release is made.", "- review: How to review."]


def test_what_cannot_be_used_is_named_with_its_reason(tmp_path: Path) -> None:
    skills = tmp_path / "work" / ".turnwright" / "skills"
    put(skills / "a", "no head")
    put(skills / "b", "---\nname: b\n---\nbody")
    put(skills / "c", "---\nname: [\n---\nbody")
    (tmp_path / "secret").write_text("key")
    (skills / "d").mkdir()
    (skills / "d" / "SKILL.md").symlink_to(tmp_path / "secret")
    (skills / "e").mkdir()
    found = skills_for(tmp_path / "work", tmp_path / "nowhere", trusted(tmp_path / "work"))
    assert found.found == ()
    reasons = [why.partition("/SKILL.md: ")[2] for why in found.skipped]
    assert reasons[:2] == ["it does not begin with a head between two lines of ---", "it has no description"]
    assert reasons[2].startswith("its head cannot be read: ")
    assert reasons[3:] == ["the link leads out of the project"]


async def test_the_model_sees_a_line_and_reads_the_rest_on_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWRIGHT_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    put(work / ".agents" / "skills" / "release", RELEASE)
    uses = Step(calls=[Call(name="skill", arguments={"name": "release"})])
    wrong = Step(calls=[Call(name="skill", arguments={"name": "other"})])
    model = ScriptedModel([uses, wrong, Step(text="Done.")])
    await Agent(model, workspace=work, data_dir=tmp_path / "data", trust_workspace=True).run("Go.")
    sections = {section.name: section.text for section in model.prompts[0].system}
    assert sections["skills"].endswith("- release: How a release is made.")
    assert "Tag it" not in str(sections)
    read, missing = [one.results[0] for one in model.prompts[-1].messages if isinstance(one, ToolResults)]
    assert read.output == "Its files are in .agents/skills/release.\n\nTag it, then wait."
    assert (missing.is_error, "There are: release" in missing.output) == (True, True)


async def test_without_skills_there_is_no_tool_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWRIGHT_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    model = ScriptedModel([Step(text="Done.")])
    await Agent(model, workspace=tmp_path / "work", data_dir=tmp_path / "data", trust_workspace=True).run("Go.")
    assert "skill" not in [tool.name for tool in model.prompts[0].tools]
