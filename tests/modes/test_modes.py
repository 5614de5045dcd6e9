"""Modes through the command line: their order, their tools, what the model is told, and what survives."""

from __future__ import annotations

import pytest
from modes_place import Place

READING = ["glob", "grep", "ls", "read"]
PLAN_THEN_BUILD = "loop: {sequence: [plan, build]}"
SCRIPT = """
steps:
  - text: Let me look.
    calls: [{ls: {}}]
    expect: {system_contains: "You are in plan mode"}
  - text: "The plan: write made.txt."
  - expect: {runtime_contains: "You are in build mode now", tools_include: [write]}
    calls: [{write: {path: made.txt, content: "made\\n"}}]
  - text: Made it.
"""


def test_a_plan_is_carried_out(place: Place) -> None:
    ran = place.run(script=SCRIPT, config=PLAN_THEN_BUILD)
    assert (ran.code, ran.result["reason"], ran.result["text"]) == (0, "stop", "Made it.")
    assert ran.modes == ["plan", "plan", "build", "build"]
    assert ran.changes == [("plan", "build", "the model had nothing more to do in it")]
    (changed,) = ran.of("mode.changed")
    assert changed["visibility"] == "model" and changed["said"]["code"] == "mode"
    assert [line.get("next_mode", "") for line in ran.of("step.started")] == ["build", "build", "", ""]
    assert (place.work / "made.txt").read_text() == "made\n"


LOOKS = "  - calls: [{ls: {path: sub%d}}]\n"
LOOKING = "steps:\n" + "".join(LOOKS % n for n in range(4)) + "  - text: Seen enough.\n"


@pytest.mark.parametrize(
    ("limit", "modes"),
    [
        (1, ["plan", "build", "build", "build", "build"]),
        (2, ["plan", "plan", "build", "build", "build"]),
        (3, ["plan", "plan", "plan", "build", "build"]),
    ],
)
def test_planning_has_an_end(place: Place, limit: int, modes: list[str]) -> None:
    ran = place.run(script=LOOKING, config=f"loop: {{sequence: [plan, build], plan_turn_limit: {limit}}}")
    assert (ran.code, ran.modes) == (0, modes)
    assert ran.changes == [("plan", "build", f"plan_turn_limit: {limit} of {limit} steps are taken")]


def test_each_step_has_the_tools_of_its_mode(place: Place) -> None:
    script = """
steps:
  - calls: [{write: {path: made.txt, content: x}}]
  - text: A plan.
    expect: {result_contains: "is not offered in this step"}
  - calls: [{write: {path: made.txt, content: y}}]
  - text: Done.
"""
    ran = place.run(script=script, config=PLAN_THEN_BUILD)
    assert [line["outcome"] for line in ran.of("tool.ended")] == ["refused", "ok"]
    assert (place.work / "made.txt").read_text() == "y"


def test_a_mode_of_ones_own_has_its_tools_and_prompt(place: Place) -> None:
    config = "modes: {review: {prompt: Only criticise., tools: [read, 'gr*']}}"
    script = "- {text: Fine., expect: {tools: [read, grep], system_contains: Only criticise.}}"
    ran = place.run("run", "do it", "--mode", "review", script=script, config=config)
    assert (ran.code, ran.modes) == (0, ["review"])


def test_a_tool_that_there_is_not_is_said(place: Place) -> None:
    config = "modes: {review: {tools: [raed, 'gr*', mcp__later__one]}}"
    ran = place.run("run", "do it", "--mode", "review", script="- text: Fine.", config=config)
    told = [line["text"] for line in ran.of("note") if line["code"] == "modes"]
    assert (ran.code, told) == (0, ["not used: modes.review.tools names 'raed', and there is no such tool"])


def test_an_empty_filter_means_no_tools(place: Place) -> None:
    script = "- {text: Words., expect: {tools: []}}"
    ran = place.run("run", "do it", "--mode", "talk", script=script, config="modes: {talk: {tools: []}}")
    assert ran.code == 0
    ran = place.run("run", "do it", "--mode", "asks", script=script, config="modes: {asks: {effects: []}}")
    assert ran.code == 0


def test_effects_limit_a_mode(place: Place) -> None:
    script = "- {text: Words., expect: {tools: [ls, read]}}"
    config = "modes: {look: {tools: [ls, read, write, bash], effects: [reads]}}"
    assert place.run("run", "do it", "--mode", "look", script=script, config=config).code == 0


def test_compact_mode_sums_up_without_tools(place: Place) -> None:
    script = """
steps:
  - text: Done.
  - text: "Summary: nothing was left to do."
    expect: {tools: [], system_contains: "You are in compact mode"}
"""
    ran = place.run(script=script, config="loop: {sequence: [build, compact]}")
    assert (ran.code, ran.modes, ran.result["text"]) == (0, ["build", "compact"], "Summary: nothing was left to do.")


def test_the_command_line_names_one_mode_in_place_of_the_sequence(place: Place) -> None:
    ran = place.run("run", "do it", "--mode", "plan", script="- text: A plan.", config=PLAN_THEN_BUILD)
    assert (ran.code, ran.modes, ran.result["text"]) == (0, ["plan"], "A plan.")


@pytest.mark.parametrize(
    ("config", "mode", "said"),
    [
        (
            "loop: {sequence: [plam, build]}",
            "",
            "loop.sequence names 'plam', and there is no such mode. Did you mean plan?",
        ),
        ("loop: {sequence: [plan, plan]}", "", "loop.sequence names 'plan' twice."),
        ("{}", "biuld", "--mode names 'biuld', and there is no such mode. Did you mean build?"),
        (
            "prompts: {packs: {poet: {paln: x}}}",
            "",
            "prompts.packs.poet names 'paln', and there is no such mode. Did you mean plan?",
        ),
        (
            "prompts: {mode: skeleton}",
            "",
            "prompts.mode names 'skeleton', and there is no such prompt pack. Did you mean",
        ),
    ],
)
def test_what_there_is_not_is_refused(place: Place, config: str, mode: str, said: str) -> None:
    options = ("--mode", mode) if mode else ()
    ran = place.run("run", "do it", *options, script="- text: Never.", config=config)
    assert ran.code == 52
    assert said in ran.errors


def test_a_skeleton_comes_first(place: Place) -> None:
    script = """
steps:
  - {text: A plan., expect: {system_contains: "2. Skeleton: the smallest change that runs from end to end"}}
  - {text: Done., expect: {system_contains: "Build the skeleton first"}}
"""
    config = "{loop: {sequence: [plan, build]}, prompts: {mode: skeleton-early}}"
    assert place.run(script=script, config=config).code == 0


def test_a_pack_of_ones_own(place: Place) -> None:
    script = "- {text: A plan., expect: {system_contains: Plan in verse.}}"
    config = "prompts: {mode: poet, packs: {poet: {plan: Plan in verse.}}}"
    assert place.run("run", "do it", "--mode", "plan", script=script, config=config).code == 0


def test_modes_are_explained_in_the_conversation(place: Place) -> None:
    script = """
steps:
  - expect: {runtime_contains: "Mode: plan.\\nYou are in plan mode"}
    calls: [{ls: {}}]
  - text: A plan.
  - text: Done.
    expect: {runtime_contains: "Mode: build.\\nTools: "}
"""
    config = "{loop: {sequence: [plan, build]}, prompts: {tool_prompt_mode: per_turn_append}}"
    ran = place.run(script=script, config=config)
    told = [line for line in ran.of("note") if line["code"] == "mode-told"]
    assert (ran.code, [line["data"]["mode"] for line in told]) == (0, ["plan", "build"])
    assert all("mode" not in line["segments"] for line in ran.of("step.started"))
    code, said = place.tell("replay", ran.conversation_id)
    assert code == 0, said


def test_one_call_at_a_time(place: Place) -> None:
    script = """
steps:
  - calls: [{ls: {}}, {glob: {pattern: "*"}}]
  - text: Done.
    expect: {result_contains: "a reply may make 1 call"}
"""
    one = "loop: {turn_strategy: {allow_multiple_per_turn: false}}"
    for config in (one, f"{{{one}, guards: {{tool_budget: {{enabled: false}}}}}}"):
        ran = place.run(script=script, config=config)
        assert ran.code == 0
        assert [line["outcome"] for line in ran.of("tool.ended")] == ["refused", "ok"]
        assert [(line["guard"], line["verdict"]) for line in ran.of("guard.tripped")] == [("tool_budget", "truncate")]


def test_a_replay_goes_through_the_same_modes(place: Place) -> None:
    ran = place.run(script=SCRIPT, config=PLAN_THEN_BUILD)
    code, said = place.tell("replay", ran.conversation_id)
    assert code == 0, said


def test_the_mode_survives_what_carries_a_task_on(place: Place) -> None:
    """The turn ran out of steps in its second mode: that is where it goes on."""
    config = "loop: {sequence: [plan, build], plan_turn_limit: 1}"
    ran = place.run("run", "do it", "--max-steps", "2", script=LOOKING, config=config)
    assert (ran.code, ran.modes) == (53, ["plan", "build", "build"])
    again = place.run("resume", ran.conversation_id, "--continue", script="- text: Done.", config=config)
    assert (again.code, again.modes, again.changes) == (0, ["build"], [])
    followed = place.run("run", "more", "--resume", ran.conversation_id, script="- text: A.\n- text: B.", config=config)
    assert (followed.code, followed.modes) == (0, ["plan", "build"])


def test_a_digest_keeps_the_mode(place: Place) -> None:
    """In the middle of a plan that no longer fits the window."""
    (place.work / "long.txt").write_text("0123456789 abcdefghij\n" * 3_000)
    script = """
digest: A digest.
steps:
  - calls: [{read: {path: long.txt}}]
    usage: {input: 100, output: 10}
  - calls: [{read: {path: long.txt, first_line: 500}}]
    fault: {is: http_error, status: 400, message: "maximum context length exceeded"}
  - text: A plan.
  - text: Done.
    expect: {tools_include: [write]}
"""
    ran = place.run(script=script, config=PLAN_THEN_BUILD)
    assert ran.code == 0, ran.errors
    compacted, *_ = ran.of("context.compacted")
    assert (compacted["turn"]["mode"], compacted["turn"]["course"]["sequence"]) == ("plan", ["plan", "build"])
    assert ran.modes[-1] == "build"


def test_the_request_says_what_a_turn_is_about(place: Place) -> None:
    ran = place.run("run", "Fix it and run the tests", script="- text: Done.")
    (started,) = ran.of("turn.started")
    assert (started["task_class"], started["task_signals"]) == ("action", ["fix +3", "run +1"])
    assert "task: action (fix +3, run +1)" in place.tell("trace", ran.conversation_id)[1]
    ran = place.run("run", "Fix it", script="- text: Done.", config="loop: {task_class: analysis}")
    (started,) = ran.of("turn.started")
    assert (started["task_class"], started["task_signals"]) == ("analysis", ["configured"])


def test_what_a_turn_is_about_sets_how_long_it_may_look(place: Place) -> None:
    """Forty looks at what was seen before: too many for an action, and not for an analysis."""
    script = "steps:\n  - calls: [{todo: {items: [{text: x}]}}]\n    repeat: 40\n  - text: Done.\n"
    off = "guards: {loop: {enabled: false}}"
    for task, reason in (("Fix it", "guard-stop"), ("Why is it so?", "stop"), ("hello", "guard-stop")):
        ran = place.run("run", task, script=script, config=off)
        assert ran.result["reason"] == reason
        trips = [line["evidence"]["calls"] for line in ran.of("guard.tripped") if line["guard"] == "progress"]
        assert trips == {"Fix it": [30], "Why is it so?": [], "hello": [8]}[task]
