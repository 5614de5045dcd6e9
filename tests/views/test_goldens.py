"""What people and programs get to see of the shared journals, whole."""

from __future__ import annotations

import msgspec
import pytest
from fact_script import Script
from golden_files import check
from journals import demo, interrupted, troubled

from turnwright.views.atif import atif, encode_atif_pieces
from turnwright.views.fold import folded
from turnwright.views.in_flight import fold_in_flight, in_flight_lines
from turnwright.views.ir import Ir, encode_ir, encode_ir_pieces, ir, ir_schema
from turnwright.views.markdown import markdown
from turnwright.views.metrics import MetricsState, encode_metrics, fold_metrics, metrics
from turnwright.views.reduce import Reduction, reduced_lines
from turnwright.views.sessions import Session, fold_session, session_lines
from turnwright.views.show import show_lines
from turnwright.views.text import plain, width
from turnwright.views.timeline import TimelineState, encode_timeline, fold_timeline, timeline
from turnwright.views.trace import trace_lines
from turnwright.views.transcript import AnyEntry, Transcript, entries, fold_transcript
from turnwright.views.wording import EVERYTHING

JOURNALS = {"demo": demo, "troubled": troubled, "interrupted": interrupted}


@pytest.fixture(params=sorted(JOURNALS))
def named(request: pytest.FixtureRequest) -> tuple[str, Script]:
    return request.param, JOURNALS[request.param]()


def transcript_of(script: Script) -> list[AnyEntry]:
    return list(entries(folded(fold_transcript, Transcript(), script)))


def test_show(named: tuple[str, Script]) -> None:
    name, script = named
    check(f"{name}.show.txt", plain(show_lines(transcript_of(script))))


def test_show_everything(named: tuple[str, Script]) -> None:
    name, script = named
    check(
        f"{name}.show-all.txt", plain(show_lines(transcript_of(script), EVERYTHING, lambda sha256: b"x.py:1: x\n" * 3))
    )


def test_markdown(named: tuple[str, Script]) -> None:
    name, script = named
    check(f"{name}.conversation.md", "".join(markdown(transcript_of(script))))


def test_ir(named: tuple[str, Script]) -> None:
    name, script = named
    whole = ir(transcript_of(script))
    assert b"".join(encode_ir_pieces(whole)) == encode_ir(whole)
    assert msgspec.json.decode(encode_ir(whole), type=Ir) == whole
    check(f"{name}.ir.json", msgspec.json.format(encode_ir(whole), indent=1) + b"\n")


def test_atif(named: tuple[str, Script]) -> None:
    """By the rules of the format's own validator: ids from 1, references within a step, agents alone have metrics."""
    name, script = named
    totals = metrics(folded(fold_metrics, MetricsState(), script))
    whole = atif(transcript_of(script), totals, lambda sha256: b"x.py:1: x\n" * 3, "0.1")
    written = b"".join(encode_atif_pieces(whole))
    assert msgspec.json.decode(written) == msgspec.json.decode(msgspec.json.encode(whole))
    assert [step.step_id for step in whole.steps] == list(range(1, len(whole.steps) + 1))
    for step in whole.steps:
        calls = {call.tool_call_id for call in step.tool_calls or ()}
        results = step.observation.results if step.observation else ()
        assert {result.source_call_id for result in results} <= calls | {None}
        assert step.source == "agent" or not (step.tool_calls or step.metrics or step.model_name)
    check(f"{name}.atif.json", msgspec.json.format(written, indent=1) + b"\n")


def test_ir_schema() -> None:
    check("ir.schema.json", msgspec.json.format(msgspec.json.encode(ir_schema()), indent=1) + b"\n")


def test_metrics(named: tuple[str, Script]) -> None:
    name, script = named
    check(f"{name}.metrics.json", encode_metrics(metrics(folded(fold_metrics, MetricsState(), script))))


def test_trace(named: tuple[str, Script]) -> None:
    name, script = named
    whole = timeline(folded(fold_timeline, TimelineState(), script))
    seen = plain(trace_lines(whole))
    assert max(map(width, seen.splitlines())) <= 100
    check(f"{name}.trace.txt", seen)
    check(f"{name}.trace.json", msgspec.json.format(encode_timeline(whole), indent=1) + b"\n")


@pytest.mark.parametrize(
    ("label", "how"),
    [
        ("reduce", Reduction()),
        ("reduce-tools", Reduction(tool_only=True)),
        ("reduce-no-tree", Reduction(skip_tree=True)),
        ("reduce-diffs", Reduction(show_diffs=True, max_length=60)),
    ],
)
def test_reduce(named: tuple[str, Script], label: str, how: Reduction) -> None:
    name, script = named
    check(f"{name}.{label}.txt", plain(reduced_lines(transcript_of(script), how)))


def test_in_flight() -> None:
    state = folded(fold_in_flight, None, interrupted())
    assert state is not None
    check("interrupted.in-flight.txt", plain(in_flight_lines(state)))


def test_sessions() -> None:
    each = [
        folded(fold_session, Session(), script) for script in (demo(), troubled(), interrupted(), Script().opened())
    ]
    check("sessions.txt", plain(session_lines(each)))
