"""Probes ask real questions over real sockets, with a real tool; what they show is kept, and the router goes by it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from turnwright.app.models import PROFILES_FILE
from turnwright.app.probing import WORD, probe, probed_at_start
from turnwright.app.reading import open_for_reading
from turnwright.app.route_profiles import VALID_S, Finding, RouteProfile, RouteProfiles
from turnwright.config.load import Flag, Loaded, load
from turnwright.providers.script import Call, Step
from turnwright.schema.facts import AttemptEnded, ToolEnded
from turnwright.testing.fake_provider import fake_provider

ECHO = Step(calls=[Call(name="echo", arguments={"word": WORD})])
TEXT = Step(text="hello")
JSON = Step(text='{"ok": true}')


def configured(home: Path, url: str, *more: Flag) -> Loaded:
    flags = [
        Flag(path=("model",), value="local/m", flag="model"),
        Flag(path=("providers", "local", "base_url"), value=url, flag="base_url"),
        *more,
    ]
    return load(home, flags=flags, environ={"TURNWRIGHT_HOME": str(home / "home"), "HOME": str(home)})


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


async def test_what_a_good_host_shows(tmp_path: Path, empty: Path) -> None:
    async with fake_provider([TEXT, TEXT, ECHO, TEXT, ECHO, TEXT, JSON], follow="requests") as url:
        loaded = configured(tmp_path, url)
        found = {name: finding async for name, finding in probe(loaded, empty)}
    assert {name: finding.shown for name, finding in found.items()} == {
        "streamed_text": "works",
        "whole_text": "works",
        "streamed_tool_call": "works",
        "whole_tool_call": "works",
        "json_mode": "works",
        "usage": "works",
        "reasoning": "unknown",
    }
    assert found["streamed_tool_call"].evidence == f"called echo: the word is {WORD}"
    async with open_for_reading(loaded) as journal:
        facts = [each.fact for each in await journal.since(found["streamed_tool_call"].conversation_id)]
    assert [fact.purpose for fact in facts if isinstance(fact, AttemptEnded)] == ["probe", "probe"]
    assert [fact.name for fact in facts if isinstance(fact, ToolEnded)] == ["echo"]
    kept = RouteProfiles(loaded.folders.state / PROFILES_FILE).all()["local/m"]
    assert kept.findings == found


async def test_a_host_that_chats_instead_of_calling_proves_nothing(tmp_path: Path, empty: Path) -> None:
    async with fake_provider([TEXT], follow="requests") as url:
        found = {name: finding async for name, finding in probe(configured(tmp_path, url), empty)}
    assert (found["streamed_tool_call"].shown, found["json_mode"].shown) == ("unknown", "fails")


async def test_a_host_that_is_not_there(tmp_path: Path, empty: Path) -> None:
    found = {name: finding async for name, finding in probe(configured(tmp_path, "http://127.0.0.1:1/v1"), empty)}
    assert found["streamed_text"].shown == "fails"
    assert "transport" in found["streamed_text"].evidence
    assert found["usage"].shown == "unknown"


async def test_a_probe_at_the_start_is_made_when_nothing_is_known(tmp_path: Path) -> None:
    flag = Flag(path=("providers", "routing", "probe_at_start"), value=True, flag="probe")
    async with fake_provider([TEXT, TEXT, ECHO, TEXT, ECHO, TEXT, JSON], follow="requests") as url:
        loaded = configured(tmp_path, url, flag)
        profiles = RouteProfiles(loaded.folders.state / PROFILES_FILE)
        await probed_at_start(loaded)
        first = profiles.all()
        await probed_at_start(loaded)
    assert set(first) == {"local/m"}
    assert profiles.all() == first
    (tmp_path / "other").mkdir()
    unasked = configured(tmp_path / "other", url)
    await probed_at_start(unasked)
    assert RouteProfiles(unasked.folders.state / PROFILES_FILE).all() == {}


@pytest.mark.parametrize(("shown", "streams"), [("works", True), ("fails", False), ("unknown", None)])
def test_what_is_known_of_streams_and_for_how_long(tmp_path: Path, shown: str, streams: bool | None) -> None:
    profiles = RouteProfiles(tmp_path / "profiles.json")
    finding = msgspec.convert({"shown": shown, "evidence": "seen"}, Finding)
    profiles.put(RouteProfile(route="r", probed_at_s=100.0, findings={"streamed_tool_call": finding}))
    assert profiles.streams("r", 100.0 + VALID_S) is streams
    assert profiles.streams("r", 101.0 + VALID_S) is None
    assert profiles.streams("other", 100.0) is None
