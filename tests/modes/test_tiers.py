"""Tiers and reasoning through the command line, against a provider of several models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import yaml
from modes_place import Place, Ran
from small_provider import Provider, Reply, provider

FAILS: dict[str, Any] = {"bash": {"command": "false"}}
WORKS: dict[str, Any] = {"bash": {"command": "true"}}


def config_of(serving: Provider, **more: Any) -> str:
    able = {f"fake/{name}": {"reasoning": True} for name in ("small", "usual", "big")}
    return yaml.safe_dump(
        {
            "model": "fake/usual",
            "tiers": {"light": "fake/small", "coder": "fake/usual", "reasoner": "fake/big", **more.pop("tiers", {})},
            "providers": {"fake": {"base_url": serving.url, "stream": "never"}, **more.pop("providers", {})},
            "catalogue": {"models": able},
            "loop": {"retry": {"attempts": 2}},
            **more,
        }
    )


def tiers(ran: Ran) -> list[str]:
    return [line["text"] for line in ran.of("note") if line["code"].startswith("tier")]


def run(place: Place, serving: Provider, task: str, *options: str, **more: Any) -> Ran:
    return place.run("run", task, *options, config=config_of(serving, **more), model="")


@pytest.mark.parametrize(
    ("task", "model", "thinks", "why"),
    [
        ("what is in the README", "small", "low", "light: what +1, short +1"),
        ("Add a --json option to list and write its test", "usual", None, "coder: usual work"),
        ("Investigate the race in the scheduler: why does it deadlock?", "big", "high", "reasoner: investigate +2"),
    ],
)
def test_a_request_goes_to_its_tier(place: Place, task: str, model: str, thinks: str | None, why: str) -> None:
    with provider(small=["Fine."], usual=["Fine."], big=["Fine."]) as serving:
        ran = run(place, serving, task)
        assert (ran.code, serving.models) == (0, [model])
        assert serving.asked[0].get("reasoning_effort") == thinks
    assert tiers(ran)[0].startswith(why)
    assert ran.of("attempt.started")[0].get("reasoning") == {"high": True, "low": False, None: None}[thinks]
    trace = place.tell("trace", ran.conversation_id)[1]
    assert f"tier: {why}" in trace
    code, said = place.tell("replay", ran.conversation_id)
    assert code == 0, said


def test_a_run_that_fails_goes_up_and_comes_down_again(place: Place) -> None:
    usual: Sequence[Reply] = [FAILS, FAILS, WORKS, "Done."]
    big: Sequence[Reply] = [{"ls": {}}, WORKS, {"glob": {"pattern": "*"}}, "Not reached."]
    with provider(small=["x"], usual=usual, big=big) as serving:
        ran = run(place, serving, "Add the option and write its test")
        assert (ran.code, ran.result["text"]) == (0, "Done.")
        assert serving.models == ["usual"] * 2 + ["big"] * 3 + ["usual"] * 2
    assert tiers(ran) == [
        "coder: usual work",
        "coder → reasoner: 2 commands failed",
        "reasoner → coder: 3 steps went well",
    ]
    switched = [(line["before"], line["after"], line["reason"]) for line in ran.of("route.switched")]
    assert switched == [
        ("fake/usual", "fake/big", "tier coder → reasoner: 2 commands failed"),
        ("fake/big", "fake/usual", "tier reasoner → coder: 3 steps went well"),
    ]
    code, said = place.tell("replay", ran.conversation_id)
    assert code == 0, said


def test_a_guard_that_trips_and_calls_that_fail_are_evidence_too(place: Place) -> None:
    for reply, why in (
        ({"ls": {}}, "coder → reasoner: the guard loop tripped"),
        ({"ls": {"pth": "x"}}, "coder → reasoner: 2 calls could not be executed"),
    ):
        with provider(small=["x"], usual=[reply], big=["Done."]) as serving:
            ran = run(place, serving, "Add the option and write its test")
            assert (ran.code, serving.models[-1], tiers(ran)[1]) == (0, "big", why)


def test_on_a_fallback_no_tier_is_chosen(place: Place) -> None:
    with provider(small=["x"], usual=[404], big=["x"], spare=[{"ls": {}}, "Done.", "Again."]) as serving:
        routing = {"routing": {"fallback": ["fake/spare"]}}
        ran = run(place, serving, "Add the option and write its test", providers=routing)
        assert (ran.code, ran.result["text"]) == (0, "Done.")
        off = "fake/spare had to answer in place of a tier's model, so no tier is chosen any more"
        assert tiers(ran) == ["coder: usual work", off]
        again = run(place, serving, "what is there", "--resume", ran.conversation_id, providers=routing)
        assert (again.code, again.result["text"], tiers(again)) == (0, "Again.", [off])
        assert serving.models[-2:] == ["spare", "spare"]


def test_five_forced_turns_are_answered_with_a_warning(place: Place) -> None:
    with provider(small=["x"], usual=["x"], big=["Done."]) as serving:
        ran = run(place, serving, "hello", tiers={"force": "reasoner"})
        said = [tiers(ran)]
        for _ in range(5):
            ran = run(place, serving, "hello", "--resume", ran.conversation_id, tiers={"force": "reasoner"})
            said.append(tiers(ran))
        assert serving.models == ["big"] * 6
    forced = "reasoner: forced by tiers.force"
    assert [len(notes) for notes in said] == [1, 1, 1, 1, 2, 1]
    assert said[4] == [
        forced,
        "5 turns in a row were forced to the reasoner tier, the dearest: is tiers.force still meant?",
    ]


def test_what_is_carried_on_keeps_its_tier(place: Place) -> None:
    with provider(small=["x"], usual=[FAILS, FAILS, "x"], big=[{"ls": {}}, "Done."]) as serving:
        ran = run(place, serving, "Add the option and write its test", "--max-steps", "3")
        assert (ran.code, serving.models) == (53, ["usual", "usual", "big", "big"])
        config = config_of(serving)
        again = place.run("resume", ran.conversation_id, "--continue", config=config, model="")
        assert (again.code, serving.models[4:], tiers(again)) == (
            0,
            ["big"],
            ["reasoner: as in the turn that is carried on"],
        )
        code, said = place.tell("replay", ran.conversation_id)
        assert code == 0, said


@pytest.mark.parametrize(("wanted", "sent"), [("on", "high"), ("off", "low"), ("auto", None)])
def test_what_the_user_wants_of_reasoning_is_sent(place: Place, wanted: str, sent: str | None) -> None:
    with provider(small=["x"], usual=["Fine."], big=["x"]) as serving:
        ran = run(place, serving, "Add the option and write its test", reasoning=wanted)
        assert (ran.code, serving.asked[0].get("reasoning_effort")) == (0, sent)
    code, said = place.tell("replay", ran.conversation_id)
    assert code == 0, said


def test_a_model_that_cannot_think_is_not_asked_to(place: Place) -> None:
    with provider(small=["x"], usual=["Fine."], big=["x"]) as serving:
        able = {"models": {"fake/usual": {"reasoning": False}}}
        ran = run(place, serving, "Add the option", reasoning="on", catalogue=able)
        assert (ran.code, serving.asked) == (52, [])
        assert "reasoning is on, and fake/usual does not think" in ran.errors


def test_tiers_need_models(place: Place) -> None:
    ran = place.run("run", "do it", "--set", "tiers.light=openai/gpt-5-mini", script="- text: x")
    assert ran.code == 52
    assert "tiers: there are none beside the model scripted/" in ran.errors


def test_a_model_that_writes_its_calls_is_shown_how_where_it_was_asked_for(place: Place) -> None:
    """`per_turn_append`: behind the conversation in every request, and not in the system prompt."""
    reply = '<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call>'
    for where in ("system_once", "per_turn_append"):
        with provider(small=["x"], usual=[reply, "Done."], big=["x"]) as serving:
            ran = run(
                place,
                serving,
                "Add the option and write its test",
                prompts={"tool_prompt_mode": where},
                tools={"dialects": ["xml-json"]},
            )
            assert (ran.code, [line["outcome"] for line in ran.of("tool.ended")]) == (0, ["ok"])
            for body in serving.asked:
                first, *_, last = body["messages"]
                shown = ["<tool_call>" in first["content"], "<tool_call>" in last["content"]]
                assert shown == [where == "system_once", where == "per_turn_append"]
            before, after = (body["messages"] for body in serving.asked)
            kept = before if where == "system_once" else before[:-1]
            assert after[: len(kept)] == kept


def test_a_model_that_is_named_for_one_run_answers_alone(place: Place) -> None:
    with provider(small=["x"], usual=["x"], big=["x"], other=["Fine."]) as serving:
        ran = run(place, serving, "what is there", "--model", "fake/other")
        assert (ran.code, serving.models, tiers(ran)) == (0, ["other"], [])
        again = run(place, serving, "what is there", "--resume", ran.conversation_id)
        assert (again.code, serving.models, tiers(again)) == (0, ["other", "other"], [])
