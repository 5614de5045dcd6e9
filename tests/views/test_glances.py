"""The small views: what was in flight, one line per conversation, the result, a run on one screen."""

from __future__ import annotations

import msgspec
import pytest
from fact_script import CONVERSATION, Script, call
from journals import interrupted

from turnwright.schema.facts import ApprovalAnswered, ApprovalAsked, InboxAdmitted, Note
from turnwright.schema.parts import Usage
from turnwright.schema.verdicts import StopReason
from turnwright.views.fold import folded
from turnwright.views.in_flight import AttemptInFlight, InFlight, fold_in_flight, in_flight_lines
from turnwright.views.reduce import Reduction, reduced_lines
from turnwright.views.result import Denial, Result, ResultState, encode_result, fold_result
from turnwright.views.sessions import Session, fold_session, session_lines
from turnwright.views.text import plain
from turnwright.views.transcript import Transcript, entries, fold_transcript

ONE = call(1)


def in_flight(script: Script) -> InFlight | None:
    return folded(fold_in_flight, None, script)


def test_each_call_in_flight_is_done_not_started_or_unknown() -> None:
    state = in_flight(interrupted())
    assert state is not None
    assert [(each.call_id, each.state, each.outcome, each.may_repeat) for each in state.calls] == [
        ("call_1", "done", "ok", False),
        ("call_2", "unknown", None, False),
        ("call_3", "unknown", None, True),
        ("call_4", "not-started", None, False),
    ]


def test_an_attempt_without_an_answer_is_in_flight() -> None:
    state = in_flight(Script().turn().step().asked(2))
    assert state is not None
    assert (state.attempt, state.calls, state.text) == (
        AttemptInFlight(attempt=2, route="local/small", purpose="turn"),
        (),
        "fix the test",
    )
    assert "It can be asked again" in plain(in_flight_lines(state))


@pytest.mark.parametrize(
    "script",
    [Script(), Script().opened(), Script().turn().step().asked().answered().replied("done").ended()],
)
def test_nothing_is_in_flight_without_an_open_turn(script: Script) -> None:
    assert in_flight(script) is None


def test_between_steps_nothing_is_under_way() -> None:
    state = in_flight(Script().turn())
    assert state is not None
    assert (
        plain(in_flight_lines(state))
        .splitlines()[0]
        .startswith(f"{CONVERSATION} was interrupted before its first step")
    )
    assert "Nothing was under way" in plain(in_flight_lines(state))


def test_an_outcome_recorded_as_unknown_stays_unknown() -> None:
    script = Script().turn().step().asked().answered().replied("", ONE).began(ONE).finished(ONE, outcome="unknown")
    state = in_flight(script)
    assert state is not None
    assert [each.state for each in state.calls] == ["unknown"]


@pytest.mark.parametrize(
    ("script", "held", "said"),
    [
        (Script().opened(), False, "new"),
        (Script().opened().turn(), False, "interrupted"),
        (Script().opened().turn(), True, "running"),
        (Script().opened().turn().ended(), False, "stop"),
        (Script().opened().turn().ended("cost-budget"), True, "cost-budget"),
    ],
)
def test_the_state_of_a_session(script: Script, held: bool, said: str) -> None:
    session = folded(fold_session, Session(), script)
    (_, row) = plain(session_lines([session], frozenset({CONVERSATION}) if held else frozenset())).splitlines()
    assert row.split()[3] == said


def test_a_session_at_a_glance() -> None:
    script = Script().opened().turn("first words").step().asked().answered(cost_usd=0.5).ended()
    script.add(InboxAdmitted(inbox_id="i_1", text="more", kind="queue")).turn("more", inbox_ids=("i_1",)).step()
    script.add(InboxAdmitted(inbox_id="i_2", text="again", kind="steer"))
    session = folded(fold_session, Session(), script)
    assert (session.title, session.turns, session.steps, session.waiting, session.spent.cost_usd, session.last_seq) == (
        "first words",
        2,
        2,
        1,
        0.5,
        10,
    )


def test_no_sessions() -> None:
    assert plain(session_lines([])) == "no conversations yet\n"


def result(script: Script) -> Result | None:
    return folded(fold_result, ResultState(), script).result


@pytest.mark.parametrize(
    ("reason", "is_error"),
    [
        ("stop", False),
        ("length", True),
        ("refused", True),
        ("max-steps", True),
        ("cancelled", True),
        ("needs-user", True),
    ],
)
def test_only_a_stop_is_no_error(reason: StopReason, is_error: bool) -> None:
    made = result(Script().turn().step().asked().answered().ended(reason))
    assert made is not None
    assert made.is_error is is_error


def test_the_result_on_the_wire() -> None:
    script = Script().turn().step().asked().answered()
    script.ended(usage=Usage(input=10, output=0), text="Done.", wait_ms=5)
    made = result(script)
    assert made is not None
    assert msgspec.json.decode(encode_result(made)) == {
        "type": "result",
        "conversation_id": made.conversation_id,
        "reason": "stop",
        "is_error": False,
        "text": "Done.",
        "usage": {"input": 10, "output": 0},
        "cost_usd": None,
        "steps": 1,
        "duration_ms": 1205.0,
        "detail": "",
        "remedy": "",
        "denials": [],
        "tokens_per_s": 62.5,
        "estimated": [],
    }


def test_what_nobody_could_answer_is_a_denial() -> None:
    script = Script().turn().step().asked().answered().replied("", ONE).began(ONE)
    for number, by in enumerate(("user", "nobody", "nobody")):
        approval_id = f"a_{number}"
        if number < 2:
            script.add(ApprovalAsked(approval_id=approval_id, question=f"May I {number}?", call_id="call_1"))
        script.add(ApprovalAnswered(approval_id=approval_id, answer="", by=by))  # type: ignore[arg-type]
    made = result(script.finished(ONE).ended("needs-user"))
    assert made is not None
    assert made.denials == (
        Denial(tool="bash", question="May I 1?", call_id="call_1"),
        Denial(tool="", question="", call_id=None),
    )


def test_a_running_turn_has_no_result_and_a_new_one_forgets_the_last() -> None:
    script = Script().turn()
    assert result(script) is None
    assert result(script.ended().turn()) is None


def test_a_result_counts_no_time_in_which_the_process_was_dead() -> None:
    script = Script().turn().step().asked()
    script.add(Note(code="turn-resumed", text="carried on"), wait_ms=9_000).step().asked().answered(total_ms=40.0)
    made = result(script.ended())
    assert made is not None
    assert made.duration_ms == 40.0


def reduced(script: Script, how: Reduction, diff: str = "") -> list[str]:
    return plain(reduced_lines(entries(folded(fold_transcript, Transcript(), script)), how, diff=diff)).splitlines()


def test_only_the_last_turns_are_kept() -> None:
    script = Script()
    for number in range(4):
        script.turn(f"ask {number}").step().asked().answered().replied(f"answer {number}").ended()
    assert [each for each in reduced(script, Reduction(turn_limit=2)) if not each.startswith("—")] == [
        "… 2 earlier turns left out …",
        "turn 3  ask 2",
        "answer  answer 2",
        "turn 4  ask 3",
        "answer  answer 3",
    ]
    assert reduced(script, Reduction(turn_limit=0)) == ["… 4 earlier turns left out …"]


def test_the_middle_of_a_long_turn_is_left_out() -> None:
    script = Script().turn()
    for number in range(200):
        tool = call(number)
        script.step().asked().failed().asked(2).answered(2).replied("", tool).began(tool).finished(tool)
    lines = reduced(script, Reduction())
    assert len(lines) < 60
    assert [each for each in lines if "left out" in each] == ["  … 176 steps left out …"]
    assert lines[-1].split()[:2] == ["199", "bash"]


def test_texts_are_shortened_and_the_diff_comes_last() -> None:
    script = Script().turn("w " * 500).step().asked().answered().replied("a " * 500).ended()
    lines = reduced(
        script, Reduction(max_length=20, show_diffs=True), diff="--- a\n+++ b\n@@ -1 +1 @@\n-old\x1b\n+new\n"
    )
    assert lines == [
        "turn 1  w w w w w w w w w w…",
        "answer  a a a a a a a a a a…",
        "— stop · 1 step · 1.2s · ? in, ? out · $?",
        "diff of the run",
        "        --- a",
        "        +++ b",
        "        @@ -1 +1 @@",
        "        -old␛",
        "        +new",
    ]
