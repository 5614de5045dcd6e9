"""Hosts as data: where they are, how they want the key, what they speak and what they do differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from turnwright.providers.codec import Dialect, Quirks
from turnwright.providers.dialects import DIALECTS
from turnwright.providers.endpoint import Endpoint, check_endpoint
from turnwright.providers.shapes import merged
from turnwright.schema.errors import ConfigError
from turnwright.schema.settings import AuthStyle, HostQuirks, Provider, TextDialect, ToolDialect

Coverage: TypeAlias = Literal["whole", "part", "none"]
"""How much of a host's models the catalogue holds. `whole`: a name that is not there is a mistake. `part`: users run
models of their own there. `none`: nobody can know."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a host can do at all; its models may do less. None is unknown."""

    tools: bool | None = True
    images: bool | None = None
    reasoning: bool | None = None


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A host. `base_url` empty: it has no address of its own, and one must be configured."""

    name: str
    dialect: Dialect = "openai-chat"
    base_url: str = ""
    auth: AuthStyle = "bearer"
    key_env: tuple[str, ...] = ()
    """The variables that hold its key, in order of preference. Empty: `<NAME>_API_KEY`."""
    key_optional: bool = False
    """It answers without a key (servers on one's own machine)."""
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    quirks: Quirks = Quirks()
    capabilities: Capabilities = Capabilities()
    tool_dialects: tuple[ToolDialect, ...] = ()
    """How its models call tools; empty: with tools of their own (see `text_tools`)."""
    catalogue: Coverage = "none"


def _local(name: str, port: int) -> Profile:
    return Profile(
        name=name,
        base_url=f"http://localhost:{port}/v1",
        key_optional=True,
        quirks=Quirks(
            runtime_role="user",  # chat templates refuse a system message that is not the first
            reasoning_on={"chat_template_kwargs": {"enable_thinking": True}},
            reasoning_off={"chat_template_kwargs": {"enable_thinking": False}},
        ),
        capabilities=Capabilities(tools=None),
    )


_PROFILES = (
    Profile(
        name="openai",
        catalogue="whole",
        base_url="https://api.openai.com/v1",
        key_env=("OPENAI_API_KEY",),
        quirks=Quirks(system_role="developer", runtime_role="developer", max_tokens_key="max_completion_tokens"),
        capabilities=Capabilities(images=True, reasoning=True),
    ),
    Profile(
        name="anthropic",
        catalogue="whole",
        dialect="anthropic",
        base_url="https://api.anthropic.com/v1",
        auth="x-api-key",
        key_env=("ANTHROPIC_API_KEY",),
        quirks=Quirks(runtime_role="user", reasoning_replay="always", tool_images=True),
        capabilities=Capabilities(images=True, reasoning=True),
    ),
    Profile(
        name="gemini",
        catalogue="whole",
        dialect="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        auth="x-goog-api-key",
        key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        quirks=Quirks(runtime_role="user"),
        capabilities=Capabilities(images=True, reasoning=True),
    ),
    Profile(
        name="openrouter",
        catalogue="whole",
        base_url="https://openrouter.ai/api/v1",
        key_env=("OPENROUTER_API_KEY",),
        # Behind it stands any host, so only what all of them accept; the cost comes only when asked for.
        quirks=Quirks(
            reasoning_on={"reasoning": {"enabled": True}},
            reasoning_off={"reasoning": {"enabled": False}},
            runtime_role="user",
            reasoning_field="reasoning_details",
            reasoning_replay="with_calls",
            extra_body={"usage": {"include": True}},
        ),
        capabilities=Capabilities(images=True, reasoning=True),
    ),
    Profile(
        name="deepseek",
        catalogue="whole",
        base_url="https://api.deepseek.com",
        key_env=("DEEPSEEK_API_KEY",),
        quirks=Quirks(
            reasoning_on={"thinking": {"type": "enabled"}},
            reasoning_off={"thinking": {"type": "disabled"}},
            reasoning_replay="with_calls",
        ),
        capabilities=Capabilities(images=False, reasoning=True),
    ),
    Profile(
        name="groq",
        catalogue="whole",
        base_url="https://api.groq.com/openai/v1",
        key_env=("GROQ_API_KEY",),
        quirks=Quirks(max_tokens_key="max_completion_tokens", reasoning_field="reasoning"),
        capabilities=Capabilities(reasoning=True),
    ),
    Profile(
        name="xai",
        catalogue="whole",
        base_url="https://api.x.ai/v1",
        key_env=("XAI_API_KEY",),
        quirks=Quirks(max_tokens_key="max_completion_tokens"),
        capabilities=Capabilities(images=True, reasoning=True),
    ),
    Profile(
        name="mistral",
        catalogue="whole",
        base_url="https://api.mistral.ai/v1",
        key_env=("MISTRAL_API_KEY",),
        # It refuses fields that it does not know, and reports usage unasked.
        quirks=Quirks(
            reasoning_on={"prompt_mode": "reasoning"},
            reasoning_off={"prompt_mode": None},
            runtime_role="user",
            include_usage=False,
            call_ids="alnum9",
        ),
        capabilities=Capabilities(images=True, reasoning=True),
    ),
    Profile(
        name="together",
        catalogue="part",
        base_url="https://api.together.xyz/v1",
        key_env=("TOGETHER_API_KEY",),
        quirks=Quirks(
            reasoning_on={"reasoning": {"enabled": True}},
            reasoning_off={"reasoning": {"enabled": False}},
            runtime_role="user",
        ),
    ),
    Profile(
        name="fireworks",
        catalogue="part",
        base_url="https://api.fireworks.ai/inference/v1",
        key_env=("FIREWORKS_API_KEY",),
        quirks=Quirks(runtime_role="user"),
    ),
    Profile(
        name="azure",
        catalogue="part",
        auth="api-key",
        key_env=("AZURE_OPENAI_API_KEY",),
        quirks=Quirks(system_role="developer", runtime_role="developer", max_tokens_key="max_completion_tokens"),
        capabilities=Capabilities(images=True, reasoning=True),
    ),
    Profile(
        name="ollama",
        dialect="ollama",
        base_url="http://localhost:11434",
        auth="bearer",
        key_optional=True,
        capabilities=Capabilities(tools=None),
    ),
    _local("llamacpp", 8080),
    _local("vllm", 8000),
    _local("lmstudio", 1234),
)

PROFILES: Mapping[str, Profile] = {profile.name: profile for profile in _PROFILES}

_ADDRESS_HINTS = {"azure": "https://RESOURCE.openai.azure.com/openai/v1"}


def profile_of(provider: str, settings: Provider | None = None) -> Profile:
    """The host that a provider's name and its section in the configuration mean, or a ConfigError.

    A provider of no known name is a plain host of its dialect; then it must say where it is.
    """
    settings = settings or Provider()
    where = f"providers.{provider}"
    if settings.profile and settings.profile not in PROFILES:
        raise ConfigError(
            f"{where}.profile: no profile {settings.profile!r}.", remedy=_known(settings.profile, PROFILES)
        )
    base = PROFILES.get(settings.profile or provider)
    if base is None and not settings.base_url:
        raise ConfigError(
            f"No provider {provider!r} is known.",
            remedy=f"Set {where}.base_url for a host of your own. {_known(provider, PROFILES)}",
        )
    base = base or Profile(name=provider, key_optional=True, capabilities=Capabilities(tools=None))
    profile = msgspec.structs.replace(
        base,
        name=provider,
        dialect=_dialect(settings.dialect, where) if settings.dialect else base.dialect,
        base_url=settings.base_url or base.base_url,
        key_env=key_variables(provider, settings),
        key_optional=base.key_optional and not settings.api_key_env,
        catalogue=coverage_of(provider, settings),
        headers=(*base.headers, *settings.headers.items()),
        query=tuple({**dict(base.query), **settings.query}.items()),
    )
    if not profile.base_url:
        hint = _ADDRESS_HINTS.get(base.name, "https://host/v1")
        raise ConfigError(f"{where} has no address.", remedy=f"Set {where}.base_url, e.g. {hint}.")
    if profile.dialect != base.dialect:
        # Another dialect on the same host: quirks and the way to take the key were those of the first.
        home = _HOMES[profile.dialect]
        profile = msgspec.structs.replace(profile, quirks=home.quirks, auth=home.auth)
    return msgspec.structs.replace(
        profile,
        auth=settings.auth or profile.auth,
        quirks=_quirks(profile.quirks, settings.quirks),
        capabilities=capabilities_of(profile.capabilities, settings),
    )


def _quirks(base: Quirks, told: HostQuirks) -> Quirks:
    """The user's word over the profile's, field by field."""
    said = {name: value for name in told.__struct_fields__ if (value := getattr(told, name)) not in (None, {})}
    return msgspec.structs.replace(base, **said | {"extra_body": merged(base.extra_body, told.extra_body)})


def capabilities_of(base: Capabilities, settings: Provider) -> Capabilities:
    told = settings.capabilities
    said = {name: value for name in told.__struct_fields__ if (value := getattr(told, name)) is not None}
    return msgspec.structs.replace(base, **said)


def key_variables(provider: str, settings: Provider) -> tuple[str, ...]:
    """Where its key is looked for. The key of a known host never goes to another address under another name."""
    if settings.api_key_env:
        return (settings.api_key_env,)
    letters = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in provider)
    own = (f"{letters.upper()}_API_KEY",)
    known = PROFILES.get(settings.profile or provider)
    if known is None or (settings.base_url and known.name != provider):
        return own
    return known.key_env or own if known.name == provider else own + known.key_env


def coverage_of(provider: str, settings: Provider) -> Coverage:
    """What answers at another address than the host's own may know models of its own."""
    base = PROFILES.get(settings.profile or provider)
    if base is None:
        return "none"
    elsewhere = settings.base_url not in ("", base.base_url)
    return "part" if elsewhere and base.catalogue == "whole" else base.catalogue


_HOMES: Mapping[Dialect, Profile] = {
    "openai-chat": Profile(name="openai-chat"),
    "openai-responses": PROFILES["openai"],
    "anthropic": PROFILES["anthropic"],
    "gemini": PROFILES["gemini"],
    "ollama": PROFILES["ollama"],
}
"""Whose ways a host has that only says which dialect it speaks."""


def text_dialects(*said: Sequence[ToolDialect]) -> tuple[TextDialect, ...]:
    """How calls are written, by the first that says anything: provider, settings, profile. Empty: tools are native."""
    chosen = next((dialects for dialects in said if dialects), ())
    texts = tuple(dict.fromkeys(dialect for dialect in chosen if dialect != "native"))
    if texts and len(texts) < len(set(chosen)):
        raise ConfigError(
            f"The tool dialects {', '.join(chosen)} do not go together: a model has tools of its own, or writes calls.",
            remedy="Name native alone, or take it away (tools.dialects, providers.<name>.tool_dialects).",
        )
    return texts


def endpoint_of(profile: Profile, key: str = "") -> Endpoint:
    """The checked endpoint of a host. Whether a key is needed was decided by whoever looked for it."""
    endpoint = Endpoint(
        base_url=profile.base_url,
        auth=profile.auth,
        key=key,
        headers=profile.headers,
        query=profile.query,
        quirks=profile.quirks,
    )
    return check_endpoint(endpoint, f"providers.{profile.name}")


def _dialect(name: str, where: str) -> Dialect:
    for dialect in DIALECTS:
        if dialect == name:
            return dialect
    raise ConfigError(f"{where}.dialect: no dialect {name!r}.", remedy=_known(name, dict.fromkeys(DIALECTS)))


def _known(name: str, known: Mapping[str, object]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, 1)
    meant = f"Did you mean {close[0]}? " if close else ""
    return f"{meant}Known are: {', '.join(known)}."
