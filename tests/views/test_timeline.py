from __future__ import annotations

from fact_script import Script, call

from turnwright.schema.facts import Note
from turnwright.views.fold import folded
from turnwright.views.text import plain, width
from turnwright.views.timeline import AttemptSpan, Mark, Timeline, TimelineState, ToolSpan, fold_timeline, timeline
from turnwright.views.trace import trace_lines

ONE, TWO = call(1, "read", '{"path": "a"}'), call(2, "read", '{"path": "b"}')


def of(script: Script) -> Timeline:
    return timeline(folded(fold_timeline, TimelineState(), script))


def places(whole: Timeline) -> list[tuple[str, float, float, float | None]]:
    """What, start, gap, duration."""
    found: list[tuple[str, float, float, float | None]] = []
    for turn in whole.turns:
        for step in turn.steps:
            for child in step.children:
                match child:
                    case AttemptSpan():
                        found.append((f"attempt {child.attempt}", child.start_ms, child.gap_ms, child.duration_ms))
                    case ToolSpan():
                        found.append((child.call_id, child.start_ms, child.gap_ms, child.duration_ms))
                    case Mark():
                        found.append((child.what, child.start_ms, child.gap_ms, None))
    return found


def test_gaps_run_from_measured_ends() -> None:
    """Ends are written only with the next start, so the facts' own times would hide every wait."""
    script = Script().turn().step().asked()
    script.failed(total_ms=100.0).asked(2, wait_ms=900).answered(2, total_ms=500.0).replied("", ONE, TWO)
    script.began(ONE, "reads").began(TWO, "reads").finished(ONE, took_ms=40).finished(TWO, took_ms=60)
    script.step().asked(wait_ms=250).answered(total_ms=10.0)
    assert places(of(script)) == [
        ("attempt 1", 0.0, 0.0, 100.0),
        ("attempt 2", 1000.0, 900.0, 500.0),
        ("call_1", 1500.0, 0.0, 40.0),
        ("call_2", 1500.0, 0.0, 60.0),
        ("attempt 1", 1850.0, 290.0, 10.0),
    ]


def test_time_in_which_the_process_was_dead_is_a_gap_and_nothing_else() -> None:
    script = Script().turn().step().asked().answered(total_ms=100.0).replied("", ONE).began(ONE, "reads")
    script.add(Note(turn_id="t_1", code="turn-resumed", text="carried on"), wait_ms=5_000)
    script.began(ONE, "reads").finished(ONE, took_ms=20).ended()
    whole = of(script)
    assert places(whole) == [
        ("attempt 1", 0.0, 0.0, 100.0),
        ("call_1", 100.0, 0.0, None),
        ("note", 100.0, 5_000.0, None),
        ("call_1", 100.0, 0.0, 20.0),
    ]
    assert whole.turns[0].duration_ms == 120.0


def test_a_call_that_shared_a_run_stands_beside_it() -> None:
    script = Script().turn().step().asked().answered(total_ms=100.0).replied("", ONE, TWO).began(ONE, "reads")
    script.finished(ONE, took_ms=30).finished(TWO, took_ms=30, detail={"shared_with": "call_1"})
    assert places(of(script))[1:] == [("call_1", 100.0, 0.0, 30.0), ("call_2", 100.0, 0.0, 30.0)]


def test_what_happens_outside_steps_is_kept() -> None:
    script = Script().asked().turn().add(Note(code="sandbox", text="none")).asked().answered(total_ms=5.0)
    (turn,) = of(script).turns
    assert [type(child) for child in turn.before] == [Mark, AttemptSpan, AttemptSpan]


def test_a_trace_fits_its_columns() -> None:
    wide = call(1, "工具" * 30, '{"path": "%s"}' % ("日本" * 50))
    script = Script().opened().turn("長い" * 100).step().asked().answered().replied("x", wide).began(wide)
    script.finished(wide, outcome="failed").ended("provider-error", detail="why " * 50)
    for columns in (60, 80, 100, 200):
        assert max(map(width, plain(trace_lines(of(script), columns)).splitlines())) <= columns


def test_an_empty_trace_says_so() -> None:
    assert plain(trace_lines(Timeline())) == "(no conversation)\nno turns yet\n"
