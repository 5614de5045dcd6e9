"""Where a provider's key is looked for: explicit, the variable named in the configuration, the provider's own
variables, the keyring (P2). A key that is nowhere is an error before any request."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from turnwright.schema.errors import CredentialsError
from turnwright.schema.masking import masked
from turnwright.schema.settings import Provider

KEYRING_SERVICE = "turnwright"

PROVIDER_ENV: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "openrouter": ("OPENROUTER_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "azure": ("AZURE_OPENAI_API_KEY",),
}
"""The variables that each provider's own tools read. Any other provider has `<NAME>_API_KEY`."""


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """Never shows itself: its repr is masked, because reprs end in logs."""

    value: str
    source: str

    def __repr__(self) -> str:
        return f"Key({masked(self.value)}, from {self.source})"


class NoKey(msgspec.Struct, frozen=True):
    """Why the keyring gave none."""

    why: str


Keyring: TypeAlias = Callable[[str], Key | NoKey]
"""Asks the system's keyring for the key of a provider."""


def find_key(
    provider: str,
    *,
    explicit: str | None = None,
    named_env: str = "",
    environ: Mapping[str, str] | None = None,
    keyring: Keyring | None = None,
) -> Key:
    """The first key there is, or a CredentialsError with all the places. A variable that the configuration names and
    that is not set is an error at once: falling through to another account's key is nobody's wish."""
    environ = os.environ if environ is None else environ
    if explicit:
        return Key(value=explicit, source="given")
    if named_env:
        if value := environ.get(named_env):
            return Key(value=value, source=named_env)
        raise CredentialsError(
            f"There is no key for provider {provider}: the variable {named_env} is not set.",
            remedy=f"Set {named_env}, or name another variable in providers.{provider}.api_key_env or --api-key-env.",
        )
    variables = env_names(provider)
    for variable in variables:
        if value := environ.get(variable):
            return Key(value=value, source=variable)
    found = (keyring or system_keyring)(provider)
    if isinstance(found, Key):
        return found
    raise CredentialsError(
        f"There is no key for provider {provider}. Looked for: an explicit key, providers.{provider}.api_key_env, "
        f"{_spelled(variables)}, the keyring entry {KEYRING_SERVICE}/{provider} ({found.why}).",
        remedy=f"Set {variables[0]}.",
    )


def key_of(
    name: str,
    provider: Provider,
    *,
    explicit: str | None = None,
    environ: Mapping[str, str] | None = None,
    keyring: Keyring | None = None,
) -> Key | None:
    """The key of a configured provider. None only where the user named the endpoint and no variable: a server of his
    own may want none, and then there is no Authorization header at all."""
    try:
        return find_key(name, explicit=explicit, named_env=provider.api_key_env, environ=environ, keyring=keyring)
    except CredentialsError:
        if provider.base_url and not provider.api_key_env:
            return None
        raise


def env_names(provider: str) -> tuple[str, ...]:
    if known := PROVIDER_ENV.get(provider):
        return known
    letters = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in provider)
    return (f"{letters.upper()}_API_KEY",)


def keys_found(environ: Mapping[str, str] | None = None) -> Iterator[tuple[str, Key]]:
    """Keys of the known providers in the environment, for `doctor`."""
    environ = os.environ if environ is None else environ
    for provider, variables in PROVIDER_ENV.items():
        for variable in variables:
            if value := environ.get(variable):
                yield provider, Key(value=value, source=variable)


def system_keyring(provider: str) -> Key | NoKey:
    """Imported here because it costs a tenth of a second, and is an extra."""
    try:
        module = importlib.import_module("keyring")
        errors = importlib.import_module("keyring.errors")
    except ModuleNotFoundError:
        return NoKey("the extra turnwright[keyring] is not installed")
    try:
        value = module.get_password(KEYRING_SERVICE, provider)
    except errors.KeyringError as bad:
        return NoKey(f"it could not be read: {type(bad).__name__}")
    return Key(value=value, source=f"keyring {KEYRING_SERVICE}/{provider}") if value else NoKey("nothing there")


def _spelled(variables: Sequence[str]) -> str:
    return " and ".join(f"the variable {name}" for name in variables)
