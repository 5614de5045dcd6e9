"""Finding out what a route can do, by doing it: real turns through the real loop, with a real tool (P14)."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec

from turnwright.app.clock import SystemClock
from turnwright.app.engine import Engine, open_engine
from turnwright.app.guards import unguarded
from turnwright.app.models import PROFILES_FILE
from turnwright.app.reading import PROBE_TITLE
from turnwright.app.route_profiles import Finding, RouteProfile, RouteProfiles
from turnwright.app.turns import first_turn, opening
from turnwright.config.load import Loaded
from turnwright.schema.errors import InputError
from turnwright.schema.facts import AttemptEnded, Fact, ModelReplied, ToolEnded, Unknown
from turnwright.schema.guards import Completion
from turnwright.schema.ids import ConversationId
from turnwright.schema.limits import Limits, Retry
from turnwright.schema.settings import answered_by
from turnwright.schema.verdicts import GOOD_VERDICTS

WORD = "marmalade"


def echo(word: str) -> str:
    """Say a word back.

    Args:
        word: The word.
    """
    return f"the word is {word}"


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One question to a route. `judge` reads the facts of the turn."""

    name: str
    task: str
    stream: bool
    tools: bool
    judge: Callable[[list[Fact | Unknown]], Finding]
    json_object: bool = False


def _replied(facts: list[Fact | Unknown]) -> Finding:
    ended = next((fact for fact in facts if isinstance(fact, AttemptEnded)), None)
    if ended is None:
        return Finding(shown="unknown", evidence="no attempt was made")
    if ended.verdict in GOOD_VERDICTS and ended.verdict != "empty":
        return Finding(shown="works", evidence=f"{ended.verdict}, {ended.bytes_in} bytes")
    if ended.fault is not None and ended.fault.kind in ("auth", "billing", "permission", "not_found", "rate_limit"):
        return Finding(shown="unknown", evidence=f"{ended.verdict}: {ended.fault.message}")
    return Finding(shown="fails", evidence=f"{ended.verdict}: {ended.fault.message if ended.fault else 'no answer'}")


def _called(facts: list[Fact | Unknown]) -> Finding:
    """The tool must have been run with what was asked; a model that chats instead proves nothing about the host."""
    ran = next((fact for fact in facts if isinstance(fact, ToolEnded)), None)
    if ran is not None and ran.outcome == "ok":
        return Finding(shown="works", evidence=f"called {ran.name}: {ran.output}")
    if ran is not None:
        return Finding(shown="fails", evidence=f"called {ran.name}: {ran.outcome}: {ran.output}")
    replied = _replied(facts)
    return (
        Finding(shown="unknown", evidence="it answered without calling the tool")
        if replied.shown == "works"
        else replied
    )


def _spoke_json(facts: list[Fact | Unknown]) -> Finding:
    text = next((fact.message.text for fact in facts if isinstance(fact, ModelReplied)), "")
    if not text:
        return _replied(facts)
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return Finding(shown="fails", evidence=f"not JSON: {text[:100]}")
    return Finding(shown="works" if isinstance(value, dict) else "fails", evidence=text[:100])


PROBES = (
    Probe(name="streamed_text", task="Say hello in one word.", stream=True, tools=False, judge=_replied),
    Probe(name="whole_text", task="Say hello in one word.", stream=False, tools=False, judge=_replied),
    Probe(
        name="streamed_tool_call",
        task=f"Call the tool echo with the word {WORD}, then say done.",
        stream=True,
        tools=True,
        judge=_called,
    ),
    Probe(
        name="whole_tool_call",
        task=f"Call the tool echo with the word {WORD}, then say done.",
        stream=False,
        tools=True,
        judge=_called,
    ),
    Probe(
        name="json_mode",
        task='Answer with the JSON object {"ok": true} and nothing else.',
        stream=False,
        tools=False,
        judge=_spoke_json,
        json_object=True,
    ),
)


async def probe(loaded: Loaded, workspace: Path) -> AsyncIterator[tuple[str, Finding]]:
    """Each finding as it is made; at the end all of them are stored as the route's profile."""
    route = loaded.settings.model
    limits = Limits(max_steps=2, step_total_s=loaded.settings.timers.total_s)
    loop = msgspec.structs.replace(loaded.settings.loop, limits=limits, retry=Retry(attempts=1), sequence=())
    settings = msgspec.structs.replace(
        answered_by(loaded.settings, route), loop=loop, modes={}, completion=Completion()
    )
    findings: dict[str, Finding] = {}
    seen: list[Fact | Unknown] = []
    async with open_engine(msgspec.structs.replace(loaded, settings=settings), label="probe") as engine:
        for each in PROBES:
            conversation_id, facts = await _asked(engine, workspace, each)
            seen += facts
            finding = msgspec.structs.replace(each.judge(facts), conversation_id=conversation_id)
            findings[each.name] = finding
            yield each.name, finding
        for name, finding in (("usage", _usage_reported(seen)), ("reasoning", _reasoned(seen))):
            findings[name] = finding
            yield name, finding
        now_s = engine.clock.wall_ms() / 1000
    path = loaded.folders.state / PROFILES_FILE
    try:
        RouteProfiles(path).put(RouteProfile(route=route, probed_at_s=now_s, findings=findings))
    except OSError as bad:
        raise InputError(
            f"What was found cannot be kept in {path}: {bad.strerror}.", remedy="Make that folder writable."
        ) from bad


async def probed_at_start(loaded: Loaded) -> None:
    """What `providers.routing.probe_at_start` asks for; in an empty workspace, where a probe can do no harm."""
    if not loaded.settings.providers.routing.probe_at_start:
        return
    known = RouteProfiles(loaded.folders.state / PROFILES_FILE).all().get(loaded.settings.model)
    if known is not None and SystemClock().wall_ms() / 1000 < known.expires_at_s():
        return
    with tempfile.TemporaryDirectory(prefix="turnwright-probe-") as empty:
        async for _ in probe(loaded, Path(empty)):
            pass


async def _asked(engine: Engine, workspace: Path, each: Probe) -> tuple[ConversationId, list[Fact | Unknown]]:
    tools = [echo] if each.tools else []
    async with engine.session(
        workspace,
        tools=tools,
        guards=unguarded,
        mode="build",
        json_object=each.json_object,
        streamed=each.stream,
    ) as session:
        metered = msgspec.structs.replace(session, purpose="probe")
        opened = msgspec.structs.replace(
            opening(engine.loaded.settings, workspace),
            title=f"{PROBE_TITLE}{engine.loaded.settings.model}: {each.name}",
        )
        async with first_turn(metered, each.task, opened) as running:
            async for _ in running:
                pass
            conversation_id = running.conversation_id
    return conversation_id, [recorded.fact for recorded in await engine.journal.since(conversation_id)]


def _usage_reported(facts: list[Fact | Unknown]) -> Finding:
    good = [fact for fact in facts if isinstance(fact, AttemptEnded) and fact.verdict in GOOD_VERDICTS]
    if not good:
        return Finding(shown="unknown", evidence="no attempt succeeded")
    without = sum(fact.usage is None or fact.usage.input is None or fact.usage.output is None for fact in good)
    return Finding(shown="fails" if without else "works", evidence=f"missing in {without} of {len(good)} replies")


def _reasoned(facts: list[Fact | Unknown]) -> Finding:
    replies = [fact for fact in facts if isinstance(fact, ModelReplied)]
    thought = sum(bool(fact.message.reasoning) for fact in replies)
    if not replies:
        return Finding(shown="unknown", evidence="there was no reply")
    return Finding(shown="works" if thought else "unknown", evidence=f"in {thought} of {len(replies)} replies")
