"""Weak models through the command line: each mistake is answered so that it can be mended, or is put right."""

from __future__ import annotations

import pytest
from modes_place import Place, Ran

TWO = """
steps:
  - calls: [{name: ls, raw: '{"path":"."}{"path":"sub"}'}]
  - text: Done.
"""


def outcomes(ran: Ran) -> list[tuple[str, str]]:
    return [(line["name"], line["outcome"]) for line in ran.of("tool.ended")]


def test_two_objects_in_one_call_are_two_calls(place: Place) -> None:
    (place.work / "sub").mkdir()
    ran = place.run(script=TWO)
    assert (ran.code, outcomes(ran)) == (0, [("ls", "ok"), ("ls", "ok")])
    assert [line["verdict"] for line in ran.of("model.replied")] == ["tool_calls", "complete"]
    assert ran.of("attempt.ended")[0]["repairs"] == [
        "2 objects in the arguments of one call of ls were made as many calls"
    ]
    assert "repaired: 2 objects" in place.tell("trace", ran.conversation_id)[1]
    code, said = place.tell("replay", ran.conversation_id)
    assert code == 0, said


LEAKED = """
steps:
  - text: |
      I will write it.
      <tool_call>
      {"name": "write", "arguments": {"path": "made.txt", "content": "x"}}
      </tool_call>
  - text: Done.
"""


def test_a_call_in_the_text_is_made_where_the_user_says_so(place: Place) -> None:
    ran = place.run(script=LEAKED, config="loop: {dispatch: {recover_leaked: true}}")
    assert (ran.code, outcomes(ran)) == (0, [("write", "ok")])
    assert (place.work / "made.txt").read_text() == "x"
    assert ran.of("model.replied")[0]["message"]["text"] == "I will write it."
    code, said = place.tell("replay", ran.conversation_id)
    assert code == 0, said


def test_by_default_it_stays_text(place: Place) -> None:
    ran = place.run(script="steps:\n" + LEAKED.split("steps:\n")[1].split("  - text: Done")[0])
    assert (ran.code, outcomes(ran)) == (0, [])
    assert "<tool_call>" in ran.result["text"]


def test_a_tool_that_is_not_offered_is_not_called_so(place: Place) -> None:
    script = "steps:\n" + LEAKED.split("steps:\n")[1].split("  - text: Done")[0]
    config = "loop: {dispatch: {recover_leaked: true}}"
    ran = place.run("run", "do it", "--mode", "plan", script=script, config=config)
    assert (ran.code, outcomes(ran)) == (0, [])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("{name: ls, raw: '{\"path\": '}", "not valid JSON"),
        ("{ls: {pth: x}}", "`$.pth` is not an argument (did you mean `path`?)"),
        ("{read: {}}", "`$.path` is missing"),
        ("{read: {path: 3}}", "Expected `str`, got `int`"),
        ("{raed: {path: x}}", "There is no tool named 'raed'. Did you mean read or "),
        ("{name: ls, raw: '[1]'}", "must be a JSON object"),
    ],
)
def test_a_mistake_is_answered_with_what_is_wrong(place: Place, call: str, said: str) -> None:
    ran = place.run(script=f"steps:\n  - calls: [{call}]\n  - text: Done.\n")
    (ended,) = ran.of("tool.ended")
    assert (ran.code, ended["outcome"]) == (0, "refused")
    assert said in ended["output"]
