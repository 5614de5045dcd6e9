from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import fields

from turnwright.providers.codec import Quirks
from turnwright.providers.endpoint import Endpoint
from turnwright.providers.profiles import PROFILES, Capabilities, Profile, endpoint_of, profile_of
from turnwright.schema.errors import ConfigError
from turnwright.schema.settings import HostCapabilities, HostQuirks, Provider

HOSTS = (
    *("openai", "anthropic", "gemini", "openrouter", "deepseek", "groq", "xai", "mistral", "together", "fireworks"),
    *("azure", "ollama", "llamacpp", "vllm", "lmstudio"),
)


def test_the_hosts_we_know() -> None:
    assert tuple(PROFILES) == HOSTS


@pytest.mark.parametrize("name", [name for name in HOSTS if name != "azure"])
def test_every_host_has_an_address_that_can_be_used(name: str) -> None:
    profile = profile_of(name)
    endpoint = endpoint_of(profile, "k" * 20)
    assert endpoint.base_url == PROFILES[name].base_url
    assert profile.key_optional or endpoint.base_url.startswith("https://")


@pytest.mark.parametrize(
    ("provider", "settings", "variables"),
    [
        ("openai", Provider(), ("OPENAI_API_KEY",)),
        ("gemini", Provider(), ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
        ("openai", Provider(base_url="http://gate/v1"), ("OPENAI_API_KEY",)),
        ("openai", Provider(api_key_env="MINE"), ("MINE",)),
        ("ollama", Provider(), ("OLLAMA_API_KEY",)),
        ("my-host.2", Provider(base_url="http://h"), ("MY_HOST_2_API_KEY",)),
        ("work", Provider(profile="openai"), ("WORK_API_KEY", "OPENAI_API_KEY")),
        ("work", Provider(profile="openai", base_url="http://h"), ("WORK_API_KEY",)),
    ],
)
def test_where_keys_are_looked_for(provider: str, settings: Provider, variables: tuple[str, ...]) -> None:
    assert profile_of(provider, settings).key_env == variables


@pytest.mark.parametrize(
    ("settings", "coverage"),
    [
        (Provider(), "whole"),
        (Provider(base_url="https://api.openai.com/v1"), "whole"),
        (Provider(base_url="http://h"), "part"),
    ],
)
def test_the_catalogue_knows_a_host_at_its_own_address(settings: Provider, coverage: str) -> None:
    assert profile_of("openai", settings).catalogue == coverage
    assert profile_of("mine", Provider(base_url="http://h")).catalogue == "none"


def test_a_host_of_ones_own() -> None:
    profile = profile_of("mine", Provider(base_url="http://h:1/v1", api_key_env="MINE", headers={"X": "1"}))
    assert (profile.name, profile.dialect, profile.auth) == ("mine", "openai-chat", "bearer")
    assert (profile.key_env, profile.key_optional) == (("MINE",), False)
    assert endpoint_of(profile, "k") == Endpoint(base_url="http://h:1/v1", key="k", headers=(("X", "1"),))
    assert profile_of("mine", Provider(base_url="http://h")).key_optional


def test_a_known_host_at_another_address_keeps_its_ways() -> None:
    profile = profile_of("work", Provider(profile="anthropic", base_url="http://gate/v1"))
    assert (profile.base_url, profile.auth, profile.quirks) == (
        "http://gate/v1",
        "x-api-key",
        PROFILES["anthropic"].quirks,
    )


def test_another_dialect_brings_its_own_ways() -> None:
    profile = profile_of("gate", Provider(base_url="http://gate/v1", dialect="anthropic"))
    assert (profile.auth, profile.quirks) == ("x-api-key", PROFILES["anthropic"].quirks)
    profile = profile_of("openrouter", Provider(dialect="openai-chat"))
    assert profile.quirks == PROFILES["openrouter"].quirks


@pytest.mark.parametrize(
    ("provider", "settings", "words"),
    [
        ("opnai", Provider(), "Did you mean openai"),
        ("mine", Provider(), "providers.mine.base_url"),
        ("azure", Provider(), "RESOURCE.openai.azure.com"),
        ("x", Provider(profile="antropic", base_url="http://h"), "Did you mean anthropic"),
        ("openai", Provider(dialect="openai"), "Did you mean openai-chat"),
        ("openai", Provider(dialect="soap"), "Known are: openai-chat"),
    ],
)
def test_what_is_wrong_is_named(provider: str, settings: Provider, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        profile_of(provider, settings)


def test_an_impossible_address_names_its_provider() -> None:
    with pytest.raises(ConfigError, match=r"providers\.mine"):
        endpoint_of(Profile(name="mine", base_url="h:8080", quirks=Quirks()))


def test_a_profile_is_extended_field_by_field() -> None:
    told = HostQuirks(include_usage=False, max_tokens_key="max_new", extra_body={"usage": {"more": 1}, "top_k": 2})
    settings = Provider(auth="api-key", query={"api-version": "1"}, quirks=told)
    profile, base = profile_of("openrouter", settings), PROFILES["openrouter"]
    assert (profile.auth, profile.query) == ("api-key", (("api-version", "1"),))
    assert profile.quirks == msgspec.structs.replace(
        base.quirks,
        include_usage=False,
        max_tokens_key="max_new",
        extra_body={"usage": {"include": True, "more": 1}, "top_k": 2},
    )


def test_capabilities_are_extended_too() -> None:
    profile = profile_of("deepseek", Provider(capabilities=HostCapabilities(images=True, tools=False)))
    assert profile.capabilities == Capabilities(tools=False, images=True, reasoning=True)


def test_every_quirk_can_be_told() -> None:
    """And nothing else; the words are the same."""
    assert {field.name for field in fields(HostQuirks)} == {field.name for field in fields(Quirks)}
    assert {field.name for field in fields(HostCapabilities)} == {field.name for field in fields(Capabilities)}


def test_how_a_host_is_asked_to_think_can_be_told() -> None:
    base = profile_of("deepseek").quirks
    assert profile_of("deepseek", Provider()).quirks == base
    told = profile_of("deepseek", Provider(quirks=HostQuirks(reasoning_on={"effort": 11}))).quirks
    assert (told.reasoning_on, told.reasoning_off) == ({"effort": 11}, base.reasoning_off)
