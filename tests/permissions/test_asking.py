"""Permissions through whole turns: who is asked what, what is on record, what the model reads."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from turnwright import Agent, Permissions, Rule, tool
from turnwright.app.agent import Answer
from turnwright.app.clock import SystemClock
from turnwright.app.replaying import replayed
from turnwright.config.folders import folders_of
from turnwright.config.trust import trust_in
from turnwright.journal.sqlite import SqliteJournal
from turnwright.kernel.ports import Model
from turnwright.providers.script import Call, Script, Step
from turnwright.providers.scripted import ScriptedModel
from turnwright.schema.facts import ApprovalAnswered, ApprovalAsked, Note, ToolEnded, visibility_of
from turnwright.schema.trust import entry_of

TOUCH = 'python3 -c \'open("made", "a").write("x")\''
SEGMENT = 'python3 -c open("made", "a").write("x")'
ALWAYS = f"always (adds `allow bash {SEGMENT}`)"
BY_LEVEL = "autonomy 2: a command that may do anything, and there is no sandbox"


@asynccontextmanager
async def closing(home: Path) -> AsyncIterator[SqliteJournal]:
    journal = await SqliteJournal.open(home / "data" / "journal", clock=SystemClock())
    try:
        yield journal
    finally:
        await journal.close()


class Place:
    def __init__(self, root: Path) -> None:
        self.work, self.home = root / "work", root / "home"
        self.work.mkdir()
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def model(self, *commands: str, call: Call | None = None) -> Model:
        calls = [call] if call else [Call(name="bash", arguments={"command": each}) for each in commands]
        return ScriptedModel(Script(steps=[Step(calls=calls), Step(text="Done.")]))

    async def run(self, model: Model, *answers: str | None, **given: Any) -> Answer:
        left = list(answers)

        async def ask(question: str, choices: Sequence[str]) -> str | None:
            self.asked.append((question, tuple(choices)))
            return left.pop(0)

        given.setdefault("permissions", Permissions())
        agent = Agent(model, workspace=self.work, data_dir=self.home / "data", ask=ask if answers else None, **given)
        return await agent.run("Go.")

    async def facts(self, answer: Answer) -> list[Any]:
        async with closing(self.home) as journal:
            return [each.fact for each in await journal.since(answer.conversation_id)]

    @property
    def made(self) -> int:
        made = self.work / "made"
        return len(made.read_text()) if made.exists() else 0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("TURNWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TURNWRIGHT_PERMISSIONS__AUTONOMY")
    monkeypatch.setenv("TURNWRIGHT_MACHINE__SANDBOX", "off")  # on any machine what is shown here is asked
    return Place(tmp_path)


async def test_nobody_to_answer_is_a_no_and_no_success(place: Place) -> None:
    answer = await place.run(place.model(TOUCH))
    assert (answer.reason, answer.denials, answer.ok, place.made) == ("needs-user", 1, False, 0)
    facts = await place.facts(answer)
    asked = next(fact for fact in facts if isinstance(fact, ApprovalAsked))
    answered = next(fact for fact in facts if isinstance(fact, ApprovalAnswered))
    assert (asked.tool, asked.segment, asked.rule, asked.choices) == ("bash", SEGMENT, BY_LEVEL, ("once", ALWAYS, "no"))
    assert (answered.by, answered.segment, answered.rule) == ("nobody", SEGMENT, BY_LEVEL)
    ended = next(fact for fact in facts if isinstance(fact, ToolEnded))
    assert ended.outcome == "refused"
    assert ended.output.startswith("not executed: nobody could answer whether it may run, which is a no. It was asked")
    assert "--autonomy 4" in ended.output and "action: allow}" in ended.output


@pytest.mark.parametrize(("said", "made", "outcome"), [("once", 1, "ok"), ("no", 0, "refused")])
async def test_what_the_user_says_holds_for_this_call(place: Place, said: str, made: int, outcome: str) -> None:
    answer = await place.run(place.model(TOUCH), said)
    facts = await place.facts(answer)
    assert (answer.reason, place.made) == ("stop", made)
    assert [fact.outcome for fact in facts if isinstance(fact, ToolEnded)] == [outcome]
    assert f"May bash do this?  {SEGMENT}" in place.asked[0][0] and BY_LEVEL in place.asked[0][0]


async def test_always_holds_for_the_next_call_and_the_next_run_here(place: Place, tmp_path: Path) -> None:
    answer = await place.run(place.model(TOUCH, TOUCH), ALWAYS)
    assert (answer.reason, place.made, len(place.asked)) == ("stop", 2, 1)
    assert (await place.run(place.model(TOUCH))).reason == "stop"
    assert place.made == 3
    kept = folders_of({"TURNWRIGHT_HOME": str(place.home)}).always
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = Agent(place.model(TOUCH), workspace=elsewhere, data_dir=place.home / "data", permissions=Permissions())
    assert (await other.run("Go.")).reason == "needs-user"


async def test_a_rule_denies_and_says_why(place: Place) -> None:
    rule = Rule(tool="bash", pattern="python3*", action="deny")
    answer = await place.run(place.model(f"ls && {TOUCH}"), permissions=Permissions(autonomy=4, rules=(rule,)))
    assert (answer.reason, answer.denials, place.made) == ("stop", 0, 0)
    facts = await place.facts(answer)
    note = next(fact for fact in facts if isinstance(fact, Note) and fact.code == "denied")
    ended = next(fact for fact in facts if isinstance(fact, ToolEnded))
    assert (note.data["segment"], note.data["rule"]) == (SEGMENT, "rule `deny bash python3*` (program)")
    assert f"bash may not: {SEGMENT} (rule `deny bash python3*` (program))" in ended.output


async def test_what_passes_only_by_level_three_or_four_is_in_the_audit_record(place: Place) -> None:
    answer = await place.run(place.model("ls", TOUCH), permissions=Permissions(autonomy=4))
    notes = [fact for fact in await place.facts(answer) if isinstance(fact, Note) and fact.code == "permitted"]
    assert [(note.data["segment"], note.data["rule"], visibility_of(note)) for note in notes] == [
        (SEGMENT, "autonomy 4: a command that may do anything", "audit")
    ]
    assert place.made == 1


async def test_a_project_can_only_make_it_stricter(place: Place) -> None:
    config = place.work / ".turnwright" / "config.yaml"
    config.parent.mkdir()
    text = (
        "permissions:\n  autonomy: 4\n  hosts: ['evil.example']\n  rules:\n"
        "    - {tool: bash, pattern: 'python3*', action: allow}\n    - {tool: ls, action: deny}\n"
    )
    config.write_text(text)
    trust = trust_in(place.work, folders_of({"TURNWRIGHT_HOME": str(place.home)}))
    trust.store.agree(trust.folder, [entry_of("config", ".turnwright/config.yaml", text.encode())])
    answer = await place.run(place.model(TOUCH), permissions=None)
    assert (answer.reason, place.made) == ("needs-user", 0)
    refused = [fact.text for fact in await place.facts(answer) if isinstance(fact, Note) and fact.code == "narrowed"]
    assert [text.partition(": ")[2].partition(":2")[0][-11:] for text in refused] != []
    assert any("permissions.autonomy: it is more than 2" in text for text in refused)
    assert any("permissions.hosts: only you decide that" in text for text in refused)
    answer = await place.run(place.model(call=Call(name="ls", arguments={})), permissions=None)
    ended = [fact for fact in await place.facts(answer) if isinstance(fact, ToolEnded)]
    assert (answer.reason, ended[0].outcome) == ("stop", "refused")


RISKY = "import requests\nrequests.get(url, verify=False)\neval(answer)\n"


async def test_a_change_of_critical_risk_asks_whatever_a_rule_says(place: Place) -> None:
    call = Call(name="write", arguments={"path": "src/auth.py", "content": RISKY})
    rules = (Rule(tool="write", action="allow"),)
    answer = await place.run(place.model(call=call), "no", permissions=Permissions(autonomy=3, rules=rules))
    question, choices = place.asked[0]
    assert "critical" in question and "switches off the check of certificates" in question
    assert choices == ("once", "no")
    assert not (place.work / "src").exists()
    answer = await place.run(place.model(call=call), permissions=Permissions(autonomy=4))
    assert answer.reason == "stop" and (place.work / "src" / "auth.py").exists()


async def test_a_change_of_high_risk_is_said_below_three(place: Place) -> None:
    call = Call(name="write", arguments={"path": "src/auth.py", "content": "eval(x)\n"})
    answer = await place.run(place.model(call=call))
    notes = [fact for fact in await place.facts(answer) if isinstance(fact, Note) and fact.code == "risk"]
    assert [(note.data["tier"], note.data["risk"]) for note in notes] == [("high", 55)]
    answer = await place.run(place.model(call=call), permissions=Permissions(autonomy=3))
    assert not [fact for fact in await place.facts(answer) if isinstance(fact, Note) and fact.code == "risk"]


async def test_a_programs_own_tools_are_its_own_code(place: Place) -> None:
    ran = []

    @tool(effect="runs")
    def deploy() -> str:
        """Deploy."""
        ran.append(1)
        return "deployed"

    model = place.model(call=Call(name="deploy", arguments={}))
    assert (await place.run(model, tools=[deploy])).reason == "stop"
    model = place.model(call=Call(name="deploy", arguments={}))
    answer = await place.run(model, tools=[deploy], permissions=Permissions(autonomy=0))
    assert (answer.reason, ran) == ("stop", [1])
    model = place.model(call=Call(name="deploy", arguments={}))
    asks = Permissions(rules=(Rule(tool="deploy", action="ask"),))
    assert (await place.run(model, tools=[deploy], permissions=asks)).reason == "needs-user"


@pytest.mark.parametrize(
    ("answers", "autonomy", "rules"),
    [
        ((), 2, ()),
        (("once", "no"), 2, ()),
        ((ALWAYS,), 2, ()),
        ((), 4, ()),
        ((), 4, (Rule(tool="bash", pattern="python3*", action="deny"),)),
    ],
)
async def test_what_was_decided_is_replayed(
    place: Place, answers: tuple[str, ...], autonomy: int, rules: tuple[Rule, ...]
) -> None:
    permissions = Permissions(autonomy=autonomy, rules=rules)
    answer = await place.run(place.model(TOUCH, "ls", TOUCH), *answers, permissions=permissions)
    async with closing(place.home) as journal:
        again = await asyncio.wait_for(replayed(journal, answer.conversation_id), 20)
    assert again.divergence is None
