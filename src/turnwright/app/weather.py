"""The health of routes: what the journal saw of them, and where their circuits stand now."""

from __future__ import annotations

from turnwright.app.clock import SystemClock
from turnwright.app.health_file import HealthFile
from turnwright.app.models import HEALTH_FILE
from turnwright.config.load import Loaded
from turnwright.journal.port import Journal
from turnwright.providers.health import Circuit, Health, circuit_of
from turnwright.views.fold import folded
from turnwright.views.weather import Report, Standing, WeatherState, fold_weather, reports

CONVERSATIONS_MAX = 1_000


async def weather(journal: Journal, loaded: Loaded, since_ms: int) -> list[Report]:
    """Over the conversations that something happened in since then."""
    state = WeatherState()
    for listed in await journal.conversations(CONVERSATIONS_MAX):
        if listed.last_at < since_ms:
            break
        facts = await journal.since(listed.id)
        state = folded(fold_weather, state, [each for each in facts if each.at >= since_ms])
    routing = loaded.settings.providers.routing
    return reports(state, standings(loaded), routing.alerts)


def standings(loaded: Loaded) -> dict[str, Standing]:
    """Of each route its worst way."""
    now_s = SystemClock().wall_ms() / 1000
    breaker = loaded.settings.providers.routing.circuit
    found: dict[str, Standing] = {}
    for way, health in HealthFile(loaded.folders.state / HEALTH_FILE).all().items():
        standing = _standing(health, circuit_of(health, breaker, now_s), now_s)
        if way.route not in found or standing.open_s > found[way.route].open_s:
            found[way.route] = standing
    return found


def _standing(health: Health, circuit: Circuit, now_s: float) -> Standing:
    open_s = 0.0 if health.down_since_s is None else now_s - health.down_since_s
    return Standing(circuit=circuit, open_s=open_s, last_failure=health.last_failure)
