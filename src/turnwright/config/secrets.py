"""What the environment and the settings hold that must never be shown: found by the names it stands under (X5)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from turnwright.schema.masking import SEARCHED_CHARS_MIN, names_a_secret
from turnwright.schema.settings import Settings

SECRET_WORDS = frozenset(
    {"key", "apikey", "token", "secret", "password", "passwd", "passphrase", "pass", "pw", "auth", "credential"}
    | {"credentials", "keys", "tokens", "secrets", "pat", "dsn", "cookie", "bearer", "signature", "webhook"}
)
"""Words of a variable's name, between underscores, that say that its value opens a door."""

PLAIN_CHARS_MAX = 15
"""A shorter value that is one word or one number (`required`, `8080`) is rather a setting than a key, and hiding it
would hide that word everywhere."""

_URL_PASSWORD = re.compile(r"://[^\s/:@]{0,128}+:([^\s/@]{1,256}+)@")
_URL_VALUE = re.compile(r"[?&;]([A-Za-z0-9_.-]{1,64}+)=([^&;\s#]{8,512}+)")


def secrets_of(environ: Mapping[str, str], settings: Settings | None = None) -> tuple[str, ...]:
    """Longest first, each once."""
    found = set(_of_environment(environ))
    if settings is not None:
        found.update(_of_settings(settings))
    return tuple(sorted(found, key=lambda each: (-len(each), each)))


def _of_environment(environ: Mapping[str, str]) -> Iterator[str]:
    for name, value in environ.items():
        if SECRET_WORDS.intersection(re.split(r"[^a-z0-9]+", name.lower())) and _is_secret(value):
            yield value
        yield from _of_url(value)


def _is_secret(value: str) -> bool:
    """Not the path of a file or a socket that holds one, not a plain word."""
    if len(value) < SEARCHED_CHARS_MIN or value.startswith(("/", "~", "./")) or "\n" in value.strip():
        return False
    plain = value.isalpha() or value.isdecimal()
    return not (plain and len(value) <= PLAIN_CHARS_MAX)


def _of_url(value: str) -> Iterator[str]:
    if "://" not in value:
        return
    for password in _URL_PASSWORD.findall(value):
        if len(password) >= SEARCHED_CHARS_MIN:
            yield password
    for name, told in _URL_VALUE.findall(value):
        if names_a_secret(name):
            yield told


def _of_settings(settings: Settings) -> Iterator[str]:
    yield from _of_url(settings.journal.url)
    for provider in settings.providers.named.values():
        yield from _of_url(provider.base_url)
        for name, value in (*provider.headers.items(), *provider.query.items()):
            if names_a_secret(name) and len(value) >= SEARCHED_CHARS_MIN:
                yield value.partition(" ")[2] or value
                yield value
