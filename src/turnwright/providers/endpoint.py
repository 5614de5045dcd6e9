"""Where requests of a route go and how they are signed: base URL, credential, headers. Made once, checked once."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from turnwright.providers.codec import Codec, Quirks
from turnwright.schema.errors import ConfigError, CredentialsError, InputError
from turnwright.schema.masking import masked
from turnwright.schema.settings import AuthStyle as AuthStyle
from turnwright.wire.gate import accept
from turnwright.wire.http import Request, check_header
from turnwright.wire.url import hide_user, parse_url


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Its repr hides the key, because reprs end in logs."""

    base_url: str
    auth: AuthStyle = "bearer"
    key: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    """Further headers of the user; they win over ours of the same name."""
    query: tuple[tuple[str, str], ...] = ()
    """Added to every request (Azure's api-version)."""
    quirks: Quirks = Quirks()

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url}, {self.auth}, key {masked(self.key) if self.key else 'none'})"


def check_endpoint(endpoint: Endpoint, where: str) -> Endpoint:
    """The same endpoint, or an error that names `where` the address or the key came from."""
    try:
        parse_url(endpoint.base_url)
    except InputError as wrong:
        raise ConfigError(f"{where}.base_url: {wrong.args[0]}", remedy="Give one like https://host/v1.") from wrong
    if "?" in endpoint.base_url:
        raise ConfigError(
            f"{where}.base_url: {hide_user(endpoint.base_url)!r} holds a query.",
            remedy="Give only the part before the path of the API; a query belongs to the profile.",
        )
    try:
        for name, value in endpoint.headers:
            check_header(name, value)
    except InputError as wrong:
        raise ConfigError(f"{where}.headers: {wrong.args[0]}", remedy=wrong.remedy) from wrong
    if any(not 32 < ord(character) < 127 for character in endpoint.key):
        raise CredentialsError(
            f"{where}: the key holds blanks, line breaks or characters outside ASCII.",
            remedy="A copied key often brings a line break along: set it again without.",
        )
    return endpoint


def request_to(endpoint: Endpoint, codec: Codec, *, model: str, body: bytes, stream: bool, agent: str) -> Request:
    """The request as it is sent. `agent` says who asks (User-Agent)."""
    own = [
        ("User-Agent", agent),
        ("Content-Type", "application/json"),
        *accept(stream),
        *codec.headers(endpoint.quirks).items(),
        *_credential(endpoint),
    ]
    given = {name.lower() for name, _ in endpoint.headers}
    headers = tuple(pair for pair in own if pair[0].lower() not in given) + endpoint.headers
    return Request(method="POST", url=url_of(endpoint, codec.path(model, stream)), headers=headers, body=body)


_PATH_SAFE = "/:@!$&'()*+,;=~%"


def url_of(endpoint: Endpoint, path: str) -> str:
    """The dialect's path below the base URL. A base URL that already holds the whole path is taken as it is."""
    base, (plain, _, query) = endpoint.base_url.rstrip("/"), path.partition("?")
    plain = quote(plain, safe=_PATH_SAFE)  # a model's name may stand in it, and a name may hold anything
    url = base if base.endswith(plain) else base + plain
    pairs = [query] if query else []
    pairs += [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in endpoint.query]
    if endpoint.auth == "query" and endpoint.key:
        pairs.append(f"key={quote(endpoint.key, safe='')}")
    return f"{url}?{'&'.join(pairs)}" if pairs else url


def _credential(endpoint: Endpoint) -> tuple[tuple[str, str], ...]:
    if not endpoint.key or endpoint.auth in ("none", "query"):
        return ()
    if endpoint.auth == "bearer":
        return (("Authorization", f"Bearer {endpoint.key}"),)
    return ((endpoint.auth, endpoint.key),)
