"""Which keys there are, and where: for `doctor` and for whoever lists models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from turnwright.config.keys import Key, Keyring, key_of
from turnwright.providers.profiles import PROFILES, key_variables, profile_of
from turnwright.schema.errors import ConfigError, CredentialsError
from turnwright.schema.settings import Provider


class FoundKey(msgspec.Struct, frozen=True, kw_only=True):
    """What was found for a provider. Without a key and a problem none is needed."""

    provider: str
    key: Key | None = None
    problem: ConfigError | CredentialsError | None = None
    configured: bool = False


def keys_of(
    named: Mapping[str, Provider], environ: Mapping[str, str], keyring: Keyring | None = None
) -> Iterator[FoundKey]:
    """Of all providers that are known or configured; each is asked for in all the places where a run would look."""
    for name in (*PROFILES, *(name for name in named if name not in PROFILES)):
        configured = name in named
        try:
            provider = named.get(name, Provider())
            profile = profile_of(name, provider) if configured else PROFILES[name]  # some have no address yet
            variables = key_variables(name, provider)
            key = key_of(name, provider, variables, environ=environ, keyring=keyring, optional=profile.key_optional)
        except (ConfigError, CredentialsError) as problem:
            yield FoundKey(provider=name, problem=problem, configured=configured)
        else:
            yield FoundKey(provider=name, key=key, configured=configured)
