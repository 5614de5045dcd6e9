"""Where attempts go: tries, reroutes, stickiness, circuits, and the book of health on disk."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from turnwright.app.health_file import HealthFile
from turnwright.providers.alerts import Weather, watch
from turnwright.providers.health import HEALTHY, Health, Way, after, circuit_of, trial_begun
from turnwright.providers.router import MemoryHealth, Router
from turnwright.schema.parts import Part
from turnwright.schema.prompt import Prompt
from turnwright.schema.routes import NoRoute, Route, Tried
from turnwright.schema.settings import Alerts, Breaker
from turnwright.schema.verdicts import Verdict

PROMPT = Prompt(lineage="c", system=(), messages=[])


class NoAttempts:
    """Nothing is asked: what became of an attempt, the test says."""

    async def attempt(self, route: Route, prompt: Prompt) -> AsyncGenerator[Sequence[Part], None]:
        yield ()


class World:
    """Routes a, b and c, and a wall clock that the test moves."""

    def __init__(self, *names: str) -> None:
        self.now_s = 1000.0
        self.health = MemoryHealth()
        self.names = names or ("a", "b", "c")
        self.router = self.another()

    def another(self, **streams: bool | None) -> Router:
        return Router(
            [Route(name=name, model=name) for name in self.names],
            NoAttempts(),
            health=self.health,
            wall_s=lambda: self.now_s,
            streams=streams,
        )

    def step(self, *verdicts: Verdict, router: Router | None = None) -> list[str]:
        """Play one step: each attempt has the next verdict; then where the next one (of the next step, if the last was
        good) would go."""
        router = router or self.router
        tried: list[Tried] = []
        went: list[str] = []
        for verdict in (*verdicts, None):
            route = router.route(tried)
            if isinstance(route, NoRoute):
                went.append("none")
                break
            went.append(route.name + ("" if route.stream else "-whole"))
            if verdict is None:
                break
            router.attempt(route, PROMPT)
            one = failed(verdict, route)
            router.judged(one)
            tried = [*tried, one] if one.retryable else []
        return went


def went(router: Router) -> str:
    route = router.route(())
    assert isinstance(route, Route)
    router.attempt(route, PROMPT)
    return route.name


def failed(verdict: Verdict, route: Route) -> Tried:
    retryable = verdict not in ("complete", "tool_calls", "cancelled")
    return Tried(route=route.name, verdict=verdict, retryable=retryable, stream=route.stream, tools=True)


def test_a_good_route_is_kept() -> None:
    world = World()
    assert world.step("complete") == ["a", "a"]


def test_three_failures_lead_to_the_next_route_and_it_sticks() -> None:
    world = World()
    assert world.step("http_error", "http_error", "http_error", "complete") == ["a", "a", "a", "b", "b"]
    assert world.step("complete") == ["b", "b"]


def test_a_failure_that_a_retry_cannot_mend_leads_on_at_once() -> None:
    world = World()
    wrong_key = Tried(route="a", verdict="http_error", status=401, kind="auth")
    chosen = world.router.route([wrong_key])
    assert isinstance(chosen, Route)
    assert chosen.name == "b"


def test_a_host_that_asks_for_too_much_patience_is_left() -> None:
    world = World()
    patient = Tried(route="a", verdict="http_error", status=429, retryable=True, retry_after_s=5)
    endless = Tried(route="a", verdict="http_error", status=429, retryable=True, retry_after_s=3600)
    names = [
        route.name
        for route in (world.router.route([patient]), world.router.route([endless]))
        if isinstance(route, Route)
    ]
    assert names == ["a", "b"]


def test_a_single_route_is_never_spent_but_may_be_closed() -> None:
    world = World("a")
    assert world.step("http_error", "http_error") == ["a", "a", "a"]
    assert world.step("http_error")[0] == "a"
    closed = world.router.route(())
    assert isinstance(closed, NoRoute)
    assert closed.message == "a is closed to requests for 900 s after failures in a row, the last: http_error"


def test_an_open_circuit_gets_no_request_until_one_trial() -> None:
    world = World()
    world.step("stall", "stall", "stall", "complete")
    assert world.step("complete", router=world.another()) == ["b", "b"]
    world.now_s += 901
    first, second = world.another(), world.another()
    assert went(first) == "a"
    assert went(second) == "b"
    first.judged(failed("complete", Route(name="a", model="a")))
    assert world.step("complete", router=world.another()) == ["a", "a"]


def test_whoever_only_asks_where_to_go_uses_up_no_trial() -> None:
    world = World("a")
    for _ in range(3):
        world.router.judged(failed("transport", Route(name="a", model="a")))
    world.now_s += 901
    later = world.another()
    assert isinstance(later.route(()), Route), "as a price is looked up before a turn"
    assert world.step("complete", router=later) == ["a", "a"]


def test_a_host_whose_streams_alone_fail_is_asked_for_whole_documents() -> None:
    world = World("a", "b")
    for _ in range(3):
        assert world.step("empty", "complete", router=world.another())[:2] == ["a", "a-whole"]
    assert world.step("complete", router=world.another())[:1] == ["a-whole"]


def test_a_failed_trial_opens_the_circuit_again() -> None:
    world = World()
    world.step("stall", "stall", "stall", "complete")
    world.now_s += 901
    trial = world.another()
    assert went(trial) == "a"
    trial.judged(failed("stall", Route(name="a", model="a")))
    assert world.step("complete", router=world.another()) == ["b", "b"]


def test_a_failed_trial_is_the_only_request() -> None:
    for names in (("a", "b"), ("a",)):
        world = World(*names)
        for _ in range(3):
            world.router.judged(failed("transport", Route(name="a", model="a")))
        world.now_s += 901
        assert world.step("stall", "complete", router=world.another()) == ["a", *(names[1:] * 2 or ("none",))]


def test_a_circuit_that_opens_in_mid_step_is_left_at_once_where_there_is_another() -> None:
    world = World("a", "b")
    for _ in range(2):
        world.router.judged(failed("stall", Route(name="a", model="a")))
    assert world.step("transport", "complete", router=world.another()) == ["a", "b", "b"]


def test_a_route_rests_when_no_way_to_use_it_is_left() -> None:
    world = World("a", "b")
    for _ in range(2):
        world.router.judged(Tried(route="a", verdict="transport", retryable=True, tools=False))
    assert not world.another().resting("a")
    world.router.judged(Tried(route="a", verdict="transport", retryable=True, tools=False))
    assert (world.another().resting("a"), world.another().resting("b")) == (True, False)


@pytest.mark.parametrize(
    ("proven", "first", "second"),
    [(None, "a", "a-whole"), (True, "a", "a"), (False, "a-whole", "a-whole")],
)
def test_streaming_is_what_a_probe_has_shown(proven: bool | None, first: str, second: str) -> None:
    world = World("a")
    assert world.step("interstitial", router=world.another(a=proven)) == [first, second]


def test_health_belongs_to_a_way_of_using_a_route() -> None:
    world = World("a")
    for _ in range(3):
        world.router.judged(failed("stall", Route(name="a", model="a")))
    with_tools, without = world.router.route((), tools=True), world.router.route((), tools=False)
    assert isinstance(with_tools, Route)
    assert isinstance(without, Route)
    assert (with_tools.stream, without.stream) == (False, True)


def test_a_preferred_route_that_is_gone_is_no_error() -> None:
    world = World()
    world.router.prefer("z")
    assert world.step("complete") == ["a", "a"]
    world.router.prefer("c")
    assert world.step("stall", "stall", "stall", "complete") == ["c", "c-whole", "c-whole", "a", "a"]


BREAKER = Breaker()
STALL = Tried(route="a", verdict="stall", retryable=True)
GOOD = Tried(route="a", verdict="complete")


def test_failures_count_only_within_the_window() -> None:
    health = HEALTHY
    for at_s in (0.0, 599.0, 1201.0):
        health = after(health, STALL, BREAKER, at_s)
    assert circuit_of(health, BREAKER, 1201.0) == "closed"
    for at_s in (1300.0, 1301.0):
        health = after(health, STALL, BREAKER, at_s)
    assert circuit_of(health, BREAKER, 1302.0) == "open"
    assert circuit_of(health, BREAKER, 2202.0) == "trial"
    assert after(health, GOOD, BREAKER, 2202.0) == HEALTHY


def test_what_says_nothing_about_a_route_changes_nothing() -> None:
    health = after(HEALTHY, STALL, BREAKER, 1.0)
    assert after(health, Tried(route="a", verdict="cancelled"), BREAKER, 2.0) == health
    assert after(health, Tried(route="a", verdict="http_error", status=400), BREAKER, 2.0) == health


def test_a_trial_that_never_reports_is_given_up() -> None:
    health = trial_begun(Health(failed_at_s=(0.0,), last_failure="stall", opened_at_s=0.0), 1000.0)
    assert circuit_of(health, BREAKER, 1001.0) == "open"
    assert circuit_of(health, BREAKER, 1700.0) == "trial"


def test_the_book_outlives_processes_and_is_shared(tmp_path: Path) -> None:
    path = tmp_path / "state" / "health.json"
    one, other = HealthFile(path), HealthFile(path)
    way, elsewhere = Way("a", True, True), Way("b", False, True)
    health = after(HEALTHY, STALL, BREAKER, 5.0)
    one.put(way, health)
    other.put(elsewhere, health)
    assert HealthFile(path).all() == {way: health, elsewhere: health}
    assert one.of(elsewhere) == health
    other.put(way, HEALTHY)
    assert HealthFile(path).all() == {elsewhere: health}


def test_a_book_that_cannot_be_read_is_no_reason_to_fail(tmp_path: Path) -> None:
    path = tmp_path / "health.json"
    path.write_text("{ not json")
    book = HealthFile(path)
    assert book.of(Way("a", True, True)) == HEALTHY
    book.put(Way("a", True, True), after(HEALTHY, STALL, BREAKER, 5.0))
    assert HealthFile(path).all() != {}


def test_alerts_are_raised_once_each() -> None:
    alerts = Alerts(pages_per_minute=2, stall_s=30, open_s=900)
    page = Tried(route="a", verdict="interstitial", retryable=True)
    told: list[str] = []
    weather = Weather()
    for at_s in (0.0, 10.0, 20.0, 30.0, 100.0):
        weather, messages = watch(weather, page, None, alerts, at_s)
        told += messages
    assert told == ["a: 3 pages of HTML in place of answers within a minute"]
    _, messages = watch(weather, Tried(route="a", verdict="complete", longest_gap_s=31), None, alerts, 200.0)
    assert messages == ["a: nothing came for 31 s in the middle of a reply"]
    told = []
    for at_s in (300.0, 1199.0, 1201.0, 1300.0):
        weather, messages = watch(weather, STALL, 300.0, alerts, at_s)
        told += messages
    assert told == ["a: its circuit has been open for 15 minutes"]


def test_a_failed_trial_does_not_hide_how_long_a_route_has_been_down() -> None:
    health = HEALTHY
    for at_s in (0.0, 1.0, 2.0, 903.0):
        health = after(health, STALL, BREAKER, at_s)
    assert (health.opened_at_s, health.down_since_s) == (903.0, 2.0)
