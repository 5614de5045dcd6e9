"""How each route has been (P22): a fold over the facts of any number of conversations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from turnwright.schema.facts import AttemptEnded, Note, Recorded, RouteSwitched
from turnwright.schema.settings import Alerts
from turnwright.schema.verdicts import Verdict
from turnwright.views.text import Line, Span, Style, clip, cost, duration, line, one_line, pad, right

MINUTE_MS = 60_000
SAMPLES_MAX = 10_000
"""First-part times kept for a percentile; beyond that every second one is let go."""

Circuit: TypeAlias = Literal["closed", "open", "trial"]


class RouteWeather(msgspec.Struct, frozen=True, kw_only=True):
    """Counts and times of one route. `worst_page_minute` is the most pages of HTML within any one minute."""

    route: str
    calls: int = 0
    verdicts: dict[Verdict, int] = {}
    first_part_ms: tuple[float, ...] = ()
    longest_gap_ms: float = 0.0
    keepalive_stalls: int = 0
    left_for_others: int = 0
    cost_usd: float | None = 0.0
    pages_at: tuple[int, ...] = ()
    worst_page_minute: int = 0
    last_at: int = 0

    def share(self, *verdicts: Verdict) -> float:
        return sum(self.verdicts.get(verdict, 0) for verdict in verdicts) / self.calls if self.calls else 0.0

    def percentile_ms(self, share: float) -> float | None:
        """Of the time to the first part; None where none came."""
        ordered = sorted(self.first_part_ms)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None


class WeatherState(msgspec.Struct, frozen=True):
    routes: dict[str, RouteWeather] = {}
    alerts: tuple[tuple[int, str], ...] = ()
    """When each alert was raised, and what it said."""


def fold_weather(state: WeatherState, recorded: Recorded) -> WeatherState:
    match recorded.fact:
        case AttemptEnded() as fact:
            before = state.routes.get(fact.route, RouteWeather(route=fact.route))
            return WeatherState({**state.routes, fact.route: _attempted(before, fact, recorded.at)}, state.alerts)
        case RouteSwitched(before=left):
            known = state.routes.get(left, RouteWeather(route=left))
            moved = msgspec.structs.replace(known, left_for_others=known.left_for_others + 1)
            return WeatherState({**state.routes, left: moved}, state.alerts)
        case Note(code="alert", text=text):
            return WeatherState(state.routes, (*state.alerts, (recorded.at, text)))
        case _:
            return state


def _attempted(before: RouteWeather, fact: AttemptEnded, at: int) -> RouteWeather:
    samples = before.first_part_ms
    if fact.timing.ttft_ms is not None:
        samples = (
            (*samples, fact.timing.ttft_ms) if len(samples) < SAMPLES_MAX else (*samples[::2], fact.timing.ttft_ms)
        )
    pages = before.pages_at
    if fact.verdict == "interstitial":
        pages = (*(then for then in pages if at - then < MINUTE_MS), at)
    stalled = fact.fault is not None and fact.fault.stall == "keepalive_only"
    return msgspec.structs.replace(
        before,
        calls=before.calls + 1,
        verdicts={**before.verdicts, fact.verdict: before.verdicts.get(fact.verdict, 0) + 1},
        first_part_ms=samples,
        longest_gap_ms=max(before.longest_gap_ms, fact.timing.longest_gap_ms or 0.0),
        keepalive_stalls=before.keepalive_stalls + stalled,
        cost_usd=None if before.cost_usd is None or fact.cost_usd is None else before.cost_usd + fact.cost_usd,
        pages_at=pages,
        worst_page_minute=max(before.worst_page_minute, len(pages)),
        last_at=max(before.last_at, at),
    )


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A route's circuit now, from the book of health."""

    circuit: Circuit
    open_s: float = 0.0
    last_failure: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A route as `health --json` shows it."""

    route: str
    calls: int
    verdicts: dict[Verdict, int]
    html_share: float
    empty_share: float
    truncated_share: float
    first_part_p50_ms: float | None
    first_part_p95_ms: float | None
    longest_gap_ms: float
    keepalive_stalls: int
    fallbacks: int
    cost_usd: float | None
    circuit: Circuit
    open_s: float
    alerts: tuple[str, ...]


def reports(state: WeatherState, standings: Mapping[str, Standing], alerts: Alerts) -> list[Report]:
    names = sorted({*state.routes, *standings})
    return [_report(state.routes.get(name, RouteWeather(route=name)), standings.get(name), alerts) for name in names]


def _report(seen: RouteWeather, standing: Standing | None, alerts: Alerts) -> Report:
    standing = standing or Standing(circuit="closed")
    return Report(
        route=seen.route,
        calls=seen.calls,
        verdicts=seen.verdicts,
        html_share=seen.share("interstitial"),
        empty_share=seen.share("empty"),
        truncated_share=seen.share("truncated"),
        first_part_p50_ms=seen.percentile_ms(0.5),
        first_part_p95_ms=seen.percentile_ms(0.95),
        longest_gap_ms=seen.longest_gap_ms,
        keepalive_stalls=seen.keepalive_stalls,
        fallbacks=seen.left_for_others,
        cost_usd=seen.cost_usd,
        circuit=standing.circuit,
        open_s=round(standing.open_s, 1),
        alerts=tuple(_alerts(seen, standing, alerts)),
    )


def _alerts(seen: RouteWeather, standing: Standing, alerts: Alerts) -> Iterator[str]:
    if seen.worst_page_minute > alerts.pages_per_minute:
        yield f"{seen.worst_page_minute} pages of HTML within a minute"
    if seen.longest_gap_ms > alerts.stall_s * 1000:
        yield f"a silence of {duration(seen.longest_gap_ms)} in the middle of a reply"
    if standing.circuit != "closed" and standing.open_s > alerts.open_s:
        yield f"its circuit has been open for {duration(standing.open_s * 1000)}"


def weather_lines(found: Iterable[Report], columns: int = 100) -> Iterator[Line]:
    wide = max(columns - 66, 20)
    yield line(
        Span(f"{pad('route', wide)} calls   good   html  empty    cut  p50 first  p95 first     cost  circuit", "dim")
    )
    empty = True
    for each in found:
        empty = False
        good = sum(each.verdicts.get(verdict, 0) for verdict in ("complete", "tool_calls", "length", "refused"))
        style: Style = "bad" if each.circuit == "open" else "warn" if each.alerts else "plain"
        shares = (good / each.calls if each.calls else 0.0, each.html_share, each.empty_share, each.truncated_share)
        yield line(
            Span(pad(clip(one_line(each.route), wide), wide), style),
            f" {right(str(each.calls), 5)}",
            *(f" {right(f'{share:.0%}', 6)}" for share in shares),
            f" {right(duration(each.first_part_p50_ms), 10)} {right(duration(each.first_part_p95_ms), 10)}",
            f" {right(cost(each.cost_usd), 8)}  ",
            Span(each.circuit, style),
        )
        if each.circuit != "closed":
            yield line(Span(f"  open for {duration(each.open_s * 1000)}", "bad"))
        for alert in each.alerts:
            yield line(Span(f"  ! {one_line(alert)}", "warn"))
    if empty:
        yield line(Span("No route has been used.", "dim"))
