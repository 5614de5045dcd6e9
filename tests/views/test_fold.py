"""What holds for every view, whatever the facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest
from fact_script import CONVERSATION, EPOCH_MS, Script, call
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from journals import demo, troubled

from turnwright.kernel.limits import Tally
from turnwright.schema.facts import (
    FACT_TYPES,
    AttemptEnded,
    KnownFact,
    Note,
    Recorded,
    StepStarted,
    Timing,
    TurnEnded,
    TurnStarted,
    Unknown,
    decode_body,
    encode_body,
)
from turnwright.schema.parts import Usage
from turnwright.schema.verdicts import Verdict
from turnwright.views.fold import Log, folded
from turnwright.views.in_flight import fold_in_flight, in_flight_lines
from turnwright.views.ir import encode_ir, ir
from turnwright.views.markdown import markdown
from turnwright.views.metrics import MetricsState, current_step, current_turn, encode_metrics, fold_metrics, metrics
from turnwright.views.reduce import Reduction, reduced_lines
from turnwright.views.result import ResultState, fold_result
from turnwright.views.run_folder import run_folder
from turnwright.views.sessions import Session, fold_session, session_lines
from turnwright.views.show import show_lines
from turnwright.views.text import plain, width
from turnwright.views.timeline import TimelineState, encode_timeline, fold_timeline, timeline
from turnwright.views.trace import trace_lines
from turnwright.views.transcript import Transcript, entries, fold_transcript

View = tuple[Callable[[Any, Recorded], Any], Any, Callable[[Any], object]]

VIEWS: dict[str, View] = {
    "transcript": (fold_transcript, Transcript(), lambda state: list(entries(state))),
    "metrics": (fold_metrics, MetricsState(), lambda state: (metrics(state), current_turn(state), current_step(state))),
    "timeline": (fold_timeline, TimelineState(), timeline),
    "sessions": (fold_session, Session(), lambda state: state),
    "in-flight": (fold_in_flight, None, lambda state: state),
    "result": (fold_result, ResultState(), lambda state: state),
}


def values_of(kind: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    """Any value of a type of the schema, small enough that what matters is what it meets."""
    match kind:
        case msgspec.inspect.StrType():
            return st.sampled_from(["", "x", "read", '{"path": "a"}', "two\nlines", "\x1b[2J<b>"]) | st.text(max_size=8)
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.IntType():
            return st.integers(-3, 10**7)
        case msgspec.inspect.FloatType():
            return st.floats(-10, 1e9)
        case msgspec.inspect.NoneType():
            return st.none()
        case msgspec.inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case msgspec.inspect.UnionType(types=types):
            return st.one_of(*map(values_of, types))
        case msgspec.inspect.VarTupleType(item_type=item):
            return st.lists(values_of(item), max_size=3).map(tuple)
        case msgspec.inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(values_of(key), values_of(value), max_size=2)
        case msgspec.inspect.StructType():
            fields = {field.name: values_of(field.type) for field in kind.fields}
            needed = {field.name: fields.pop(field.name) for field in kind.fields if field.required}
            return st.fixed_dictionaries(needed, optional=fields).map(lambda values: kind.cls(**values))
        case _:
            raise AssertionError(f"the schema has a type unknown here: {kind}")


FEW_IDS = {"turn_id": ["t_1", "t_2", None], "step_id": ["t_1#0", "t_1#1", None], "call_id": ["call_1", "call_2", None]}
FACTS = {name: values_of(msgspec.inspect.type_info(kind)) for name, kind in sorted(FACT_TYPES.items())}


@st.composite
def some_fact(draw: st.DrawFn) -> KnownFact | Unknown:
    """Any fact whatever, with ids from a small set so that facts meet."""
    name = draw(st.sampled_from([*FACTS, "from.the.future"]))
    if name not in FACTS:
        return Unknown(name)
    ids = {field: draw(st.sampled_from(values)) for field, values in FEW_IDS.items()}
    fact = msgspec.structs.replace(draw(FACTS[name]), **ids)
    if isinstance(fact, Note) and draw(st.booleans()):
        fact = msgspec.structs.replace(fact, code="turn-resumed")
    known = decode_body(encode_body(fact))
    assert known == fact
    return known


@st.composite
def any_journal(draw: st.DrawFn) -> list[Recorded]:
    script = Script()
    for fact in draw(st.lists(some_fact(), max_size=25)):
        script.add(fact, wait_ms=draw(st.integers(-1_000, 100_000)))
    return script.recorded


@pytest.mark.parametrize("name", VIEWS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_two_halves_are_the_whole_and_branches_never_meet(name: str, data: st.DataObject) -> None:
    fold, start, seen = VIEWS[name]
    facts = data.draw(any_journal())
    cut = data.draw(st.integers(0, len(facts)))
    whole = seen(folded(fold, start, facts))
    half = folded(fold, start, facts[:cut])
    before = seen(half)
    other = [Recorded(conversation_id="c_other", seq=1, at=0, fact=TurnStarted(text="other"), body=b"{}")]
    folded(fold, half, other * 3)
    assert seen(half) == before
    assert seen(folded(fold, half, facts[cut:])) == whole
    assert seen(start) == seen(folded(fold, start, []))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(facts=any_journal(), limit=st.integers(0, 3), columns=st.integers(1, 120))
def test_no_facts_make_a_view_raise(facts: list[Recorded], limit: int, columns: int) -> None:
    shown = list(entries(folded(fold_transcript, Transcript(), facts)))
    plain(show_lines(shown, columns=columns))
    plain(reduced_lines(shown, Reduction(turn_limit=limit, show_diffs=True), columns=columns))
    "".join(markdown(shown)).encode()
    encode_ir(ir(shown))
    encode_metrics(metrics(folded(fold_metrics, MetricsState(), facts)))
    tree = timeline(folded(fold_timeline, TimelineState(), facts))
    encode_timeline(tree)
    assert all(width(each) <= 100 for each in plain(trace_lines(tree)).splitlines())
    plain(session_lines([folded(fold_session, Session(), facts)], columns=columns))
    interrupted = folded(fold_in_flight, None, facts)
    if interrupted is not None:
        plain(in_flight_lines(interrupted, columns))
    for path, _ in run_folder(facts, {}):
        assert not path.startswith("/")
        assert ".." not in path


@pytest.mark.parametrize("script", [demo(), troubled()])
def test_facts_of_a_newer_version_change_nothing(script: Script) -> None:
    """Each real fact followed by one nobody knows: the views are the same but for their clocks and counts of facts."""
    facts: list[Recorded] = []
    for recorded in script:
        facts += [recorded, msgspec.structs.replace(recorded, fact=Unknown("from.the.future"))]
    for name in ("transcript", "metrics", "timeline", "result"):
        fold, start, seen = VIEWS[name]
        assert seen(folded(fold, start, facts)) == seen(folded(fold, start, script))


_attempts = st.builds(
    AttemptEnded,
    attempt=st.integers(1, 3),
    route=st.just("r"),
    verdict=st.sampled_from(get_args(Verdict)),
    timing=st.just(Timing(total_ms=1.0)),
    usage=st.none()
    | st.builds(
        Usage,
        input=st.none() | st.integers(0, 99),
        output=st.none() | st.integers(0, 99),
        cache_read=st.none() | st.integers(0, 9),
        reasoning=st.none() | st.integers(0, 9),
    ),
    cost_usd=st.none() | st.floats(0, 1),
    purpose=st.sampled_from(["turn", "turn", "compaction"]),
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_attempts | st.builds(StepStarted, index=st.integers(0, 9)), max_size=20))
def test_sums_of_a_turn_are_those_its_limits_read(facts: list[AttemptEnded | StepStarted]) -> None:
    """The kernel's tally is what `turn.ended` says (V5)."""
    tally, script = Tally(), Script().turn()
    for fact in facts:
        tally.apply(fact)
        script.add(fact)
    sums = current_turn(folded(fold_metrics, MetricsState(), script))
    assert sums is not None
    assert (sums.usage, sums.cost_usd, sums.context_size, sums.step_count) == (
        tally.usage,
        tally.cost_usd,
        tally.context_size,
        tally.steps,
    )


def test_a_log_is_one_list_for_those_who_only_add_to_its_end() -> None:
    empty: Log[int] = Log()
    one = empty.add(1)
    two, other = one.add(2), one.add(3)
    assert [list(log) for log in (empty, one, two, other, other.add(4))] == [[], [1], [1, 2], [1, 3], [1, 3, 4]]
    assert (len(two), two == Log([1, 2]), two == other, two == [1, 2]) == (2, True, False, False)
    assert repr(two) == "Log([1, 2])"
    assert list(empty) == []


def test_a_fact_costs_the_same_late_as_early() -> None:
    """No view may copy its past for each fact: what one more fact allocates does not grow with what came before."""
    import tracemalloc

    def growth(steps: int, fold: Callable[[Any, Recorded], Any], start: Any) -> int:
        script = Script().opened().turn()
        for number in range(steps):
            tool = call(number)
            script.step().asked().answered().replied("", tool).began(tool).finished(tool, "ok")
        state = folded(fold, start, script)
        last = Script().opened().turn().step().asked().answered().recorded[-3:]
        tracemalloc.start()
        folded(fold, state, [msgspec.structs.replace(each, seq=10**6, at=EPOCH_MS + 10**7) for each in last])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    for name in ("transcript", "metrics", "timeline", "sessions", "in-flight", "result"):
        fold, start, _ = VIEWS[name]
        assert growth(1_000, fold, start) < growth(10, fold, start) + 16_384, name


def test_turn_ended_is_equal_to_metrics_in_the_shared_journal() -> None:
    script = demo()
    ended = script.recorded[-1].fact
    assert isinstance(ended, TurnEnded)
    (turn,) = metrics(folded(fold_metrics, MetricsState(), script)).turns
    assert (turn.usage, turn.context_size, turn.step_count, turn.reason) == (
        ended.usage,
        ended.context_size,
        ended.steps,
        ended.reason,
    )
    assert turn.cost_usd == pytest.approx(ended.cost_usd)
    assert script.recorded[0].conversation_id == CONVERSATION
