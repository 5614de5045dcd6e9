"""When the weather of a route is worth waking somebody (P22): a fold over attempts, with its messages."""

from __future__ import annotations

import msgspec

from turnwright.schema.routes import Tried
from turnwright.schema.settings import Alerts

MINUTE_S = 60.0


class Weather(msgspec.Struct, frozen=True):
    """What alerts remember of one route."""

    pages_at_s: tuple[float, ...] = ()
    told_down: bool = False


def watch(
    weather: Weather, tried: Tried, down_since_s: float | None, alerts: Alerts, now_s: float
) -> tuple[Weather, list[str]]:
    """`down_since_s`: since when the route's circuit has been open without a success."""
    messages: list[str] = []
    pages = tuple(at for at in weather.pages_at_s if now_s - at < MINUTE_S)
    if tried.verdict == "interstitial":
        pages = (*pages, now_s)
        if len(pages) > alerts.pages_per_minute:
            messages.append(f"{tried.route}: {len(pages)} pages of HTML in place of answers within a minute")
            pages = ()
    if tried.longest_gap_s > alerts.stall_s:
        messages.append(f"{tried.route}: nothing came for {tried.longest_gap_s:.0f} s in the middle of a reply")
    told = weather.told_down and down_since_s is not None
    if down_since_s is not None and not told and now_s - down_since_s > alerts.open_s:
        messages.append(f"{tried.route}: its circuit has been open for {(now_s - down_since_s) / MINUTE_S:.0f} minutes")
        told = True
    return Weather(pages, told), messages
