from __future__ import annotations

from fact_script import Script, call

from turnwright.schema.facts import ApprovalAnswered, InboxAdmitted, InboxWithdrawn, Note, ToolStarted
from turnwright.views.fold import folded
from turnwright.views.transcript import (
    Call,
    Questioned,
    Replied,
    Resulted,
    Transcript,
    Waiting,
    entries,
    fold_transcript,
)
from turnwright.views.wording import EVERYTHING, output_of

ONE, TWO = call(1, "read", '{"path": "a"}'), call(2, "read", '{"path": "b"}')


def replies(script: Script, *, live: bool = False) -> list[tuple[str, str | None, list[tuple[str, str, str]]]]:
    shown = entries(folded(fold_transcript, Transcript(), script), live=live)
    return [
        (entry.text, entry.verdict, [(each.call_id, each.status, each.output) for each in entry.calls])
        for entry in shown
        if isinstance(entry, Replied)
    ]


def test_results_stand_in_call_order_under_their_reply() -> None:
    script = Script().turn().step().asked().answered().replied("look", ONE, TWO)
    script.began(ONE, "reads").began(TWO, "reads").finished(TWO, "b").finished(ONE, "a")
    assert replies(script) == [("look", "tool_calls", [("call_1", "ok", "a"), ("call_2", "ok", "b")])]


def test_calls_that_started_early_move_into_their_reply_and_those_of_a_failed_attempt_stay() -> None:
    script = Script().turn().step().asked()
    script.began(ONE, "reads").finished(ONE, "stopped", outcome="interrupted").failed().asked(2)
    script.began(TWO, "reads").answered(2).replied("look", TWO).finished(TWO, "b")
    assert replies(script) == [
        ("", None, [("call_1", "interrupted", "stopped")]),
        ("look", "tool_calls", [("call_2", "ok", "b")]),
    ]


def test_a_call_without_an_end_runs_only_while_the_turn_is_known_to_run() -> None:
    script = Script().turn().step().asked().answered().replied("look", ONE, TWO).began(ONE, "reads")
    running = [("look", "tool_calls", [("call_1", "running", ""), ("call_2", "not-started", "")])]
    unknown = [("look", "tool_calls", [("call_1", "unknown", ""), ("call_2", "not-started", "")])]
    assert (replies(script, live=True), replies(script)) == (running, unknown)
    assert replies(script.turn("next"), live=True) == unknown


def test_a_resumed_turn_ends_the_calls_of_its_open_step() -> None:
    script = Script().turn().step().asked().answered().replied("look", ONE, TWO).began(ONE, "reads")
    script.add(Note(turn_id="t_1", code="turn-resumed", text="carried on"), wait_ms=60_000)
    script.began(ONE, "reads").finished(ONE, "a").finished(TWO, "?", outcome="unknown").ended()
    assert replies(script) == [("look", "tool_calls", [("call_1", "ok", "a"), ("call_2", "unknown", "?")])]


def test_a_result_that_comes_after_its_step_stands_by_itself() -> None:
    script = Script().turn().step().asked().answered().replied("look", ONE).began(ONE).step().finished(ONE, "late")
    late = [
        entry.call for entry in entries(folded(fold_transcript, Transcript(), script)) if isinstance(entry, Resulted)
    ]
    assert [(each.call_id, each.status, each.output) for each in late] == [("call_1", "ok", "late")]
    assert replies(script) == [("look", "tool_calls", [("call_1", "unknown", "")])]


def test_a_start_outside_any_step_is_not_lost() -> None:
    script = Script().turn()
    script.add(ToolStarted(call_id="call_9", name="bash", arguments="{}", effect="runs", idempotency="once"))
    assert replies(script) == [("", None, [("call_9", "unknown", "")])]


def test_what_waits_in_the_inbox_is_shown_until_it_is_taken_or_withdrawn() -> None:
    script = Script().turn()
    for inbox_id in ("i_1", "i_2", "i_3"):
        script.add(InboxAdmitted(inbox_id=inbox_id, text=inbox_id, kind="queue"))
    script.add(InboxWithdrawn(inbox_id="i_1")).ended().turn("i_2", inbox_ids=("i_2",))
    shown = entries(folded(fold_transcript, Transcript(), script))
    assert [entry.text for entry in shown if isinstance(entry, Waiting)] == ["i_3"]


def test_an_answer_without_its_question_is_shown() -> None:
    script = Script().turn().add(ApprovalAnswered(approval_id="a_1", answer="yes", by="user"))
    shown = entries(folded(fold_transcript, Transcript(), script))
    assert [(entry.question, entry.answer, entry.by) for entry in shown if isinstance(entry, Questioned)] == [
        ("", "yes", "user")
    ]


def test_a_payload_stored_apart_is_shown_or_named() -> None:
    from turnwright.schema.facts import BlobRef

    apart = Call(call_id="c", name="bash", output_blob=BlobRef(sha256="ab12", size_bytes=40_000))
    named = "[40,000 bytes stored apart: sha256 ab12]"
    assert [output_of(apart, blob) for blob in (None, lambda sha256: None, lambda sha256: b"whole \xff")] == [
        named,
        named,
        "whole �",
    ]
    assert EVERYTHING.reasoning
