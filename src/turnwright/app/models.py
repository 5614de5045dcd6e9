"""From a model's name to something that answers. Heavy parts are imported for the kind that is used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from turnwright import __version__
from turnwright.app.clock import SystemClock
from turnwright.config.keys import key_of
from turnwright.config.layers import dotted
from turnwright.config.load import Loaded
from turnwright.kernel.ports import Model
from turnwright.schema.errors import ConfigError
from turnwright.schema.masking import Masker, learn, names_a_secret
from turnwright.schema.routes import Route
from turnwright.schema.settings import ENDPOINT, Provider, Settings, TextDialect, TierSettings
from turnwright.schema.tiers import Tier, Tiers
from turnwright.session.ports import Captures, NoCaptures

if TYPE_CHECKING:
    from turnwright.app.library import Library
    from turnwright.providers.catalogue import Known
    from turnwright.providers.http_route import HttpRoute
    from turnwright.providers.router import Attempts
    from turnwright.wire.http import HttpClient

DEMO = "demo"
"""The model of `turnwright demo`, so that its conversation can be carried on."""
SCRIPTED = "scripted/"
AGENT = f"turnwright/{__version__}"
HEALTH_FILE = "health.json"
PROFILES_FILE = "route_profiles.json"


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A model, what hides its secrets, and where its bytes wait."""

    model: Model
    masker: Masker = Masker()
    captures: Captures = NoCaptures()
    tiers: Tiers | None = None
    """Where each tier's requests go; None where all are answered by one model."""


async def opened_model(
    stack: AsyncExitStack,
    loaded: Loaded,
    environ: Mapping[str, str],
    clock: SystemClock,
    api_key: str | None,
    masker: Masker,
    streamed: bool | None = None,
) -> Opened:
    """The model that the settings name. What it opens is closed with `stack`."""
    name = loaded.settings.model
    if not name:
        raise ConfigError(
            "No model is chosen.",
            remedy="Give --model provider/name, or set `model` in config.yaml or TURNWRIGHT_MODEL.",
        )
    if (name == DEMO or name.startswith(SCRIPTED)) and _tier_models(loaded.settings.tiers):
        raise ConfigError(
            f"tiers: there are none beside the model {name}.", remedy="Leave them out, or choose a provider's model."
        )
    if name == DEMO:
        from turnwright.app.demo import demo_model

        return Opened(model=demo_model(), masker=masker)
    if name.startswith(SCRIPTED):
        from turnwright.providers.script import read_script
        from turnwright.providers.scripted import ScriptedModel

        script = read_script(Path(name.removeprefix(SCRIPTED)))
        return Opened(model=ScriptedModel(script, clock=clock), masker=masker)
    return await _http_model(stack, loaded, environ, clock, api_key, masker, streamed)


async def _http_model(
    stack: AsyncExitStack,
    loaded: Loaded,
    environ: Mapping[str, str],
    clock: SystemClock,
    api_key: str | None,
    masker: Masker,
    streamed: bool | None = None,
) -> Opened:
    """The model and its fallbacks, each a route of its own. A fallback without a key is an error now, not when it is
    needed."""
    from turnwright.app.captures import AttemptCaptures
    from turnwright.app.health_file import HealthFile
    from turnwright.app.library import library_for
    from turnwright.providers.catalogue_routes import AskingAttempts, RouteFacts
    from turnwright.providers.http_route import HttpModel
    from turnwright.providers.router import MemoryHealth, Router
    from turnwright.wire.http import HttpClient
    from turnwright.wire.proxies import proxies_from

    settings = loaded.settings
    listed = [settings.model, *settings.providers.routing.fallback]
    tiers = _tier_models(settings.tiers)
    names = list(dict.fromkeys([*listed, *tiers.values()]))
    providers = [provider_and_model(settings, name)[0] for name in names]
    library = await library_for(settings, providers, cache=loaded.folders.cache, wall_ms=clock.wall_ms())
    ways = []
    for name, provider in zip(names, providers, strict=True):
        with _set_at(loaded, provider):
            ways.append(_way(settings, name, environ, api_key if name == settings.model else None, library))
    client = await stack.enter_async_context(HttpClient(proxies=proxies_from(environ)))
    masker = masker.also(secret for way in ways for secret in way.secrets)
    learn(masker)
    captures = AttemptCaptures(settings.capture, masker, {way.route.name: way.tools for way in ways if way.tools})

    def wall_s() -> float:
        return clock.wall_ms() / 1000

    http = HttpModel(
        client,
        {way.route.name: way.http for way in ways},
        clock=clock,
        wall_s=wall_s,
        timers=settings.timers,
        agent=AGENT,
        captured=None if settings.capture == "off" else captures,
    )
    facts = RouteFacts({way.route.name: way.known for way in ways}, wall_s)
    attempts = AskingAttempts(http, facts, _servers(client, ways, clock))
    # An endpoint given for one run is nobody's route, and a probe asks also what is closed: neither is held against
    # anybody.
    one_off = streamed is not None or all(way.route.name.startswith(f"{ENDPOINT}/") for way in ways)
    router = Router(
        [way.route for way in ways],
        _with_text_tools(attempts, ways),
        health=MemoryHealth() if one_off else HealthFile(loaded.folders.state / HEALTH_FILE),
        wall_s=wall_s,
        breaker=settings.providers.routing.circuit,
        alerts=settings.providers.routing.alerts,
        streams=_streams(loaded, clock, [way.route.name for way in ways], streamed),
        complete=facts,
        only_preferred={_route_name(settings, name) for name in tiers.values() if name not in listed},
    )
    if not router.resting(first := ways[0].route.name):
        await attempts.learn(first)
    return Opened(model=router, masker=masker, captures=captures, tiers=_tiers(settings, tiers))


def _tier_models(tiers: TierSettings) -> dict[Tier, str]:
    """Those that are named."""
    named: dict[Tier, str] = {"light": tiers.light, "coder": tiers.coder, "reasoner": tiers.reasoner}
    return {tier: model for tier, model in named.items() if model}


def _tiers(settings: Settings, models: Mapping[Tier, str]) -> Tiers | None:
    if not models:
        return None

    def route(tier: Tier) -> str:
        return _route_name(settings, models.get(tier, settings.model))

    return Tiers(
        light=route("light"),
        coder=route("coder"),
        reasoner=route("reasoner"),
        fallbacks=tuple(_route_name(settings, name) for name in settings.providers.routing.fallback),
        forced=settings.tiers.force or None,
        escalate_at=settings.tiers.escalate_at,
        calm_steps=settings.tiers.calm_steps,
    )


def _route_name(settings: Settings, name: str) -> str:
    return "/".join(provider_and_model(settings, name))


def _check_reasoning(wanted: str, name: str, known: Known) -> None:
    """What the model cannot do is refused now, and not by its host."""
    if wanted == "on" and known.reasoning is False:
        raise ConfigError(
            f"reasoning is on, and {name} does not think.",
            remedy=f"Choose another model, or set catalogue.models.{name.partition('/')[2]}.reasoning if it does.",
        )


def _streams(
    loaded: Loaded, clock: SystemClock, routes: Sequence[str], streamed: bool | None
) -> dict[str, bool | None]:
    """Whether each route is known to stream together with tools: by a probe that is not too old (P14)."""
    from turnwright.app.route_profiles import RouteProfiles

    if streamed is not None:
        return dict.fromkeys(routes, streamed)
    known = RouteProfiles(loaded.folders.state / PROFILES_FILE)
    told: dict[str, bool | None] = {}
    for route in routes:
        configured = loaded.settings.providers.named.get(route.partition("/")[0], Provider())
        probed = known.streams(route, clock.wall_ms() / 1000)
        told[route] = probed if configured.stream == "auto" else configured.stream == "always"
    return told


class _Way(msgspec.Struct, frozen=True):
    route: Route
    http: HttpRoute
    secrets: tuple[str, ...]
    """Its key, and what its configured headers and query hold under names that say so."""
    known: Known
    tools: tuple[TextDialect, ...]
    """How calls are written on it; empty where the model has tools of its own."""


def _way(settings: Settings, name: str, environ: Mapping[str, str], api_key: str | None, library: Library) -> _Way:
    from turnwright.app.library import quirks_for
    from turnwright.providers.dialects import codec_of
    from turnwright.providers.http_route import HttpRoute
    from turnwright.providers.profiles import endpoint_of, profile_of, text_dialects

    provider, model = provider_and_model(settings, name)
    configured = settings.providers.named.get(provider, Provider())
    profile = profile_of(provider, configured)
    variables = () if provider == ENDPOINT else profile.key_env
    key = key_of(provider, configured, variables, explicit=api_key, environ=environ, optional=profile.key_optional)
    library.check(provider, model)
    known = library.known(provider, model)
    _check_reasoning(settings.reasoning, f"{provider}/{model}", known)
    quirks = quirks_for(profile, known, library.entry(provider, model))
    tools = text_dialects(configured.tool_dialects, settings.tools.dialects, profile.tool_dialects)
    if tools:
        # Results are words of the runtime there: what a tool has printed must not speak with a system's authority.
        quirks = msgspec.structs.replace(quirks, runtime_role="user")
    profile = msgspec.structs.replace(profile, quirks=quirks)
    secret = key.value if key else ""
    http = HttpRoute(endpoint=endpoint_of(profile, secret), codec=codec_of(profile.dialect))
    told = [value for name, value in (*profile.headers, *profile.query) if names_a_secret(name)]
    secrets = tuple(each for each in (secret, *told) if each)
    return _Way(Route(name=f"{provider}/{model}", model=model), http, secrets, known, tools)


@contextmanager
def _set_at(loaded: Loaded, provider: str) -> Iterator[None]:
    """What is wrong with a provider is mended where it was configured."""
    try:
        yield
    except ConfigError as wrong:
        places = [
            f"{dotted(path)} in {leaf.place}"
            for path, leaf in loaded.said.items()
            if path[:2] == ("providers", provider) and dotted(path[:3]) in wrong.args[0]
        ]
        if not places:
            raise
        raise ConfigError(wrong.args[0], remedy=f"{wrong.remedy} (Set: {', '.join(places)}.)".lstrip()) from wrong


def _with_text_tools(attempts: Attempts, ways: Sequence[_Way]) -> Attempts:
    """Loaded only where a route needs it."""
    dialects = {way.route.name: way.tools for way in ways if way.tools}
    if not dialects:
        return attempts
    from turnwright.providers.text_tools.attempts import TextTools

    return TextTools(attempts, dialects)


def _servers(client: HttpClient, ways: Sequence[_Way], clock: SystemClock) -> dict[str, Callable[[], Awaitable[Known]]]:
    """The routes whose server can say what it holds, each with the question."""
    servers: dict[str, Callable[[], Awaitable[Known]]] = {}
    for way in ways:
        if way.http.codec.dialect == "ollama":
            from turnwright.providers.catalogue_ollama import OllamaServer

            server = OllamaServer(client, way.http.endpoint, way.http.codec, way.route.model, clock=clock, agent=AGENT)
            servers[way.route.name] = server.known
    return servers


def provider_and_model(settings: Settings, name: str) -> tuple[str, str]:
    """`provider/model`; a bare name, or one whose first part is no provider, belongs to `providers.default`."""
    from turnwright.providers.profiles import PROFILES

    provider, slash, model = name.partition("/")
    if slash and model and (provider in PROFILES or provider in settings.providers.named):
        return provider, model
    if settings.providers.default:
        return settings.providers.default, name
    if not slash:
        raise ConfigError(
            f"The model {name!r} names no provider.",
            remedy="Write provider/model, set providers.default, or give --base-url.",
        )
    return provider, model
