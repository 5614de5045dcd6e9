"""Two routes, the first of which fails: every run is a process of its own, so what one learned another must know."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from weather_runs import Line, Nursery, Place, Ran, cli, nursery
from weather_server import row

from turnwright.providers.codec import Dialect
from turnwright.testing.dialects.said import Said
from turnwright.testing.exchange import Exchange, whole
from turnwright.testing.fault_table.case import Setting
from turnwright.testing.faults import FaultServer, serve

REST_S = 12.0
"""How long a circuit stays open: longer than the runs that must meet it open take on a busy machine."""
PAGE: Exchange = whole(200, "text/html", b"<!doctype html><title>Just a moment...</title>")
BUSY: Exchange = whole(503, "application/json", b'{"error":{"message":"The engine is overloaded."}}')


def says(text: str, dialect: Dialect = "openai-chat") -> Exchange:
    return Setting(dialect=dialect, streaming=True, tools=False).reply(Said(text=(text,)))


def settings(server: FaultServer, dialect: Dialect) -> dict[str, object]:
    return {
        "model": "flaky/m",
        "providers": {
            "flaky": {"base_url": server.url("flaky"), "dialect": dialect},
            "steady": {"base_url": server.url("steady")},
            "routing": {"fallback": ["steady/n"], "circuit": {"open_s": REST_S}},
        },
        "logging": {"level": "error"},
    }


class World:
    """A server with both routes, and a home that all runs share."""

    def __init__(self, server: FaultServer, place: Place, forks: Nursery) -> None:
        self.server = server
        self.place = place
        self.forks = forks
        self.met = 0

    async def run(self) -> tuple[Ran, int]:
        """A run, and how many requests the first route got in it."""
        config = str(self.place.root / "config.yaml")
        ran = await self.forks.run(
            self.place, "run", "go", "--config", config, "--no-input", "--output", "stream-json", "--cwd",
            str(self.place.work),
        )  # fmt: skip
        assert ran.code == 0, ran.err
        before, self.met = self.met, len(self.server.seen("flaky"))
        return ran, self.met - before

    async def health(self, *words: str) -> Ran:
        config = str(self.place.root / "config.yaml")
        return await self.forks.run(self.place, "health", "--config", config, *words)


@pytest.mark.parametrize(
    ("bad", "dialect", "verdict"),
    [(PAGE, "openai-chat", "interstitial"), (BUSY, "anthropic", "http_error"), (BUSY, "ollama", "http_error")],
    ids=["pages", "busy", "busy-ollama"],
)
async def test_the_circuit_opens_outlives_processes_and_closes_by_one_trial(
    bad: Exchange, dialect: Dialect, verdict: str, tmp_path: Path
) -> None:
    flaky = row("flaky", bad, bad, bad, bad, says("I am back.", dialect), dialect=dialect)
    async with serve([flaky, row("steady", says("Here I am."))]) as server, nursery() as forks:
        place = Place(tmp_path / "place")
        place.config(settings(server, dialect))
        world = World(server, place, forks)

        ran, requests = await world.run()
        opened_at = time.monotonic()
        assert requests == 3
        assert [(each["route"], each["verdict"]) for each in ran.facts("attempt.ended")] == [
            *[("flaky/m", verdict)] * 3,
            ("steady/n", "complete"),
        ]
        (switched,) = ran.facts("route.switched")
        assert (switched["before"], switched["after"]) == ("flaky/m", "steady/n")
        assert verdict in switched["reason"]
        assert ran.facts("turn.ended")[0]["text"] == "Here I am."

        ran, requests = await world.run()
        assert time.monotonic() - opened_at < REST_S, "too busy a machine to say anything"
        assert requests == 0, "an open route gets no request"
        assert [each["route"] for each in ran.facts("attempt.ended")] == ["steady/n"]

        checked = await world.health("--check", "--json")
        assert time.monotonic() - opened_at < REST_S, "too busy a machine to say anything"
        assert checked.code == 59
        told: dict[str, Line] = {each["route"]: each for each in checked.lines}
        assert told["flaky/m"]["verdicts"] == {verdict: 3}
        assert (told["flaky/m"]["circuit"], told["flaky/m"]["fallbacks"]) == ("open", 1)
        assert (told["steady/n"]["circuit"], told["steady/n"]["calls"]) == ("closed", 2)
        assert told["flaky/m"]["html_share"] == (1.0 if bad is PAGE else 0.0)

        await asyncio.sleep(max(0.0, opened_at + REST_S + 0.5 - time.monotonic()))
        ran, requests = await world.run()
        assert requests == 1, "one trial"
        assert [(each["route"], each["verdict"]) for each in ran.facts("attempt.ended")] == [
            ("flaky/m", verdict),
            ("steady/n", "complete"),
        ]
        reopened_at = time.monotonic()
        _, requests = await world.run()
        assert (requests, time.monotonic() - reopened_at < REST_S) == (0, True), "a trial that fails opens it again"

        await asyncio.sleep(max(0.0, reopened_at + REST_S + 0.5 - time.monotonic()))
        ran, requests = await world.run()
        assert (requests, ran.facts("turn.ended")[0]["text"]) == (1, "I am back.")
        _, requests = await world.run()
        assert requests == 1, "closed again"
        checked = await world.health("--check", "--json")
        told = {each["route"]: each for each in checked.lines}
        assert told["flaky/m"]["circuit"] == "closed"
        assert checked.code == (59 if told["flaky/m"]["alerts"] else 0)


async def test_health_in_words(tmp_path: Path) -> None:
    """What a person reads, from a fresh process."""
    async with serve([row("flaky", PAGE), row("steady", says("Here I am."))]) as server, nursery() as forks:
        place = Place(tmp_path / "place")
        config = place.config(settings(server, "openai-chat"))
        await World(server, place, forks).run()
        ran = await cli(place, "health", "--config", str(config))
    assert ran.code == 0
    first, *rest = ran.out.splitlines()
    assert first.split()[0] == "route"
    flaky = next(line for line in rest if line.startswith("flaky/m"))
    assert "100%" in flaky
    assert flaky.rstrip().endswith("open")
    assert any("3 pages of HTML" in line for line in rest), ran.out
