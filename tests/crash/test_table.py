"""Kill it anywhere: a quick slice of the crash table each time, as much of it as three minutes allow among the slow
tests, and all of it with `python tests/crash/table.py --all`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence

import pytest
from crash_points import Moment, Point, Syscall, has_strace
from crash_result import Trial
from crash_trial import Workers, spread
from table import complaints, rows

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans and notices of files are watched as on Linux")

QUICK_CALLS = 18
QUICK_MOMENTS = 12
QUICK_TALK = 6
SLOW_S = 45.0
"""For each of the two slow tests; whole trials are added at the end."""
SLOW_TRIALS = 50
TALK_S = 15.0
"""The same for what the user says, and for the scenes."""
OF_MIGRATION = 6
RESUME_LIMIT_S = 15.0
"""Far below the 45 s of a lease, far above the second that it takes: other tests run at the same time."""


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    with Workers(tmp_path_factory.mktemp("crash"), jobs=2) as workers:
        yield workers


@pytest.fixture
def strace() -> None:
    if has_strace():
        return
    if os.environ.get("CI"):
        pytest.fail("strace cannot trace here, and in CI the crash table must not be skipped: install strace.")
    pytest.skip("strace is not installed, or may not trace")


def judged(trials: Sequence[Trial], at_least: int) -> None:
    print("\n".join(rows(trials)))
    assert complaints(trials) == []
    assert sum(trial.died for trial in trials) >= at_least
    assert max(trial.resumed_s or 0.0 for trial in trials) <= RESUME_LIMIT_S


@pytest.mark.timeout(300)
def test_killed_at_some_system_calls(workers: Workers, strace: None) -> None:
    points = workers.system_calls("run")
    assert len(points) >= 500
    judged(list(workers.try_all(spread(points)[:QUICK_CALLS])), at_least=QUICK_CALLS * 3 // 4)


@pytest.mark.timeout(300)
def test_killed_at_some_named_moments(workers: Workers) -> None:
    judged(list(workers.try_all(spread(workers.moments())[:QUICK_MOMENTS])), at_least=QUICK_MOMENTS * 3 // 4)


def test_every_kind_of_fact_has_its_moment(workers: Workers) -> None:
    """The driver's run records everything that the loop can record so far, bar what belongs to a resume."""
    named = {kind for moment in workers.moments() if " append " in moment.name for kind in facts_of(moment)}
    assert named == {
        "conversation.opened",
        "turn.started",
        "step.started",
        "attempt.started",
        "attempt.ended",
        "model.replied",
        "tool.started",
        "tool.ended",
        "approval.asked",
        "approval.answered",
        "guard.tripped",
        "inbox.admitted",
        "inbox.withdrawn",
        "steering.delivered",
        "workspace.saved",
        "turn.ended",
    }


@pytest.mark.timeout(300)
def test_killed_while_the_user_speaks(workers: Workers) -> None:
    """Through the socket of the host: each topic has its moments."""
    points = workers.moments(seed=1)
    assert {point.topic for point in points} == {"inbox", "steering", "approval"}
    judged(list(workers.try_all(spread(points)[:QUICK_TALK])), at_least=QUICK_TALK * 3 // 4)


def test_the_first_fact_comes_with_the_task(workers: Workers) -> None:
    """Whoever was shown the id of a conversation can resume what was asked in it."""
    first, *_ = [facts_of(moment) for moment in workers.moments() if " append " in moment.name]
    assert first == ["conversation.opened", "turn.started"]


def facts_of(moment: Moment) -> list[str]:
    return moment.name.rsplit(" ", 1)[1].split("+")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_killed_at_as_many_system_calls_as_time_allows(workers: Workers, strace: None) -> None:
    points: list[Point] = [*workers.system_calls("first", "run", "resume")]
    assert len({point.phase for point in points if isinstance(point, Syscall)}) == 4
    tried = workers.try_all(spread(points), until=time.monotonic() + SLOW_S, at_least=SLOW_TRIALS)
    judged(list(tried), at_least=SLOW_TRIALS * 3 // 4)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_killed_at_as_many_moments_of_talk_as_time_allows(workers: Workers) -> None:
    points = [point for seed in range(2, 5) for point in workers.moments(seed)]
    judged(list(workers.try_all(spread(points), until=time.monotonic() + TALK_S, at_least=15)), at_least=10)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_killed_while_it_condenses_sends_a_subagent_or_forks(workers: Workers) -> None:
    points: list[Point] = [*workers.scene("compaction", 1), *workers.scene("subagent", 2), *workers.forks(3)]
    assert {point.group for point in points} == {"scene: compaction", "scene: subagent", "fork"}
    judged(list(workers.try_all(spread(points), until=time.monotonic() + TALK_S, at_least=9)), at_least=6)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_killed_while_an_old_journal_is_brought_forward(workers: Workers, strace: None) -> None:
    points = workers.system_calls("migrate")
    assert len(points) >= 20
    judged(list(workers.try_all(spread(points)[:OF_MIGRATION])), at_least=OF_MIGRATION * 3 // 4)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_killed_at_as_many_named_moments_as_time_allows(workers: Workers) -> None:
    tried = workers.try_all(spread(workers.moments()), until=time.monotonic() + SLOW_S, at_least=SLOW_TRIALS)
    judged(list(tried), at_least=SLOW_TRIALS * 3 // 4)
