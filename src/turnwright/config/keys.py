"""Where a provider's key is looked for: explicit, the variable named in the configuration, the provider's own
variables, the keyring (P2). A key that is nowhere is an error before any request."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from turnwright.schema.errors import CredentialsError
from turnwright.schema.masking import masked
from turnwright.schema.settings import Provider

KEYRING_SERVICE = "turnwright"


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
    variables: Sequence[str],
    *,
    explicit: str | None = None,
    named_env: str = "",
    environ: Mapping[str, str] | None = None,
    keyring: Keyring | None = None,
) -> Key:
    """The first key there is, or a CredentialsError with all the places. `variables` are the provider's own.

    A variable that the configuration names and that is not set is an error at once: falling through to another
    account's key is nobody's wish.
    """
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
    for variable in variables:
        if value := environ.get(variable):
            return Key(value=value, source=variable)
    found = (keyring or system_keyring)(provider)
    if isinstance(found, Key):
        return found
    places = ["an explicit key", f"providers.{provider}.api_key_env"]
    places += [f"the variable {variable}" for variable in variables]
    places += [f"the keyring entry {KEYRING_SERVICE}/{provider} ({found.why})"]
    raise CredentialsError(
        f"There is no key for provider {provider}. Looked for: {', '.join(places)}.",
        remedy=f"Set {variables[0]}." if variables else f"Name a variable in providers.{provider}.api_key_env.",
    )


def key_of(
    name: str,
    provider: Provider,
    variables: Sequence[str],
    *,
    explicit: str | None = None,
    environ: Mapping[str, str] | None = None,
    keyring: Keyring | None = None,
    optional: bool = False,
) -> Key | None:
    """The key of a configured provider. None only where the user named no variable, and the provider is one that
    answers without (`optional`) or stands at an address of his own: then there is no Authorization header at all."""
    if optional:
        keyring = keyring or _no_keyring
    try:
        return find_key(
            name, variables, explicit=explicit, named_env=provider.api_key_env, environ=environ, keyring=keyring
        )
    except CredentialsError:
        if (optional or provider.base_url) and not provider.api_key_env:
            return None
        raise


def _no_keyring(provider: str) -> NoKey:
    """Asking the system's costs a tenth of a second, and may ask its user in turn: not for what needs no key."""
    del provider
    return NoKey("not asked")


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
