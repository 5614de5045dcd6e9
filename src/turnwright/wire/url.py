"""Web addresses, as far as a client needs them."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote, urlsplit

import msgspec

from turnwright.schema.errors import InputError


class Origin(msgspec.Struct, frozen=True):
    """Whom to connect to. Connections are reused within one origin only."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """What goes into a Host header: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


class Url(msgspec.Struct, frozen=True):
    origin: Origin
    target: str
    """Path and query, as they stand in the request line."""


_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f]")
_PORTS = {"http": 80, "https": 443}
_REMEDY = "Give an address like https://host/path."


@lru_cache(maxsize=256)
def parse_url(text: str) -> Url:
    """The parts of an absolute address, or an InputError. User names and fragments are refused: both would be lost."""
    if _UNPRINTABLE.search(text):
        raise InputError(f"{text!r} is not a web address: it holds blanks or control characters.", remedy=_REMEDY)
    try:
        split = urlsplit(text)
        host, port = split.hostname, split.port
    except ValueError as wrong:
        raise InputError(f"{text!r} is not a web address: {wrong}.", remedy=_REMEDY) from wrong
    if split.scheme not in _PORTS:
        raise InputError(f"{text!r} is not a web address: it must begin with http:// or https://.", remedy=_REMEDY)
    if not host:
        raise InputError(f"{text!r} is not a web address: it names no host.", remedy=_REMEDY)
    if split.username is not None or split.fragment:
        raise InputError(f"{hide_user(text)!r} holds a user name or a fragment, which cannot be sent.", remedy=_REMEDY)
    target = split.path or "/"
    if split.query:
        target += f"?{split.query}"
    if not target.isascii():
        raise InputError(f"{text!r} holds characters that must be percent-encoded.", remedy=_REMEDY)
    return Url(Origin(split.scheme, host, port if port is not None else _PORTS[split.scheme]), target)


def hide_user(text: str) -> str:
    """The address without what stands before an `@`: it may be shown."""
    scheme, mark, rest = text.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{mark}{authority.rpartition('@')[2]}{slash}{path}"


def parse_proxy(text: str) -> tuple[Origin, str]:
    """A proxy's origin and `user:password` (or nothing). A bare `host:port` is taken as http."""
    address = text if "://" in text else f"http://{text}"
    try:
        split = urlsplit(address)
        host, port = split.hostname, split.port
    except ValueError as wrong:
        raise InputError(f"The proxy {hide_user(text)!r} is not an address: {wrong}.") from wrong
    if split.scheme != "http" or not host:
        raise InputError(
            f"The proxy {hide_user(address)!r} cannot be used.", remedy="Only http://host:port proxies are supported."
        )
    user = ""
    if split.username is not None:
        user = f"{unquote(split.username)}:{unquote(split.password or '')}"
    return Origin("http", host, port if port is not None else _PORTS["http"]), user
