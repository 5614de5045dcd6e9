"""Which proxy a request goes through. Nothing is read from the environment here: whoever wants that says so."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from turnwright.wire.url import Origin, parse_proxy


class Proxies(msgspec.Struct, frozen=True, kw_only=True):
    """Empty: none. `no_proxy` lists hosts, domains (`.example.org`) and `host:port`; `*` is all."""

    http: str = ""
    https: str = ""
    no_proxy: tuple[str, ...] = ()


def proxies_from(variables: Mapping[str, str]) -> Proxies:
    """As curl reads them. An upper-case HTTP_PROXY is ignored, since a web server lets a stranger's header set it."""

    def first(*names: str) -> str:
        return next((variables[name] for name in names if variables.get(name)), "")

    everything = first("all_proxy", "ALL_PROXY")
    return Proxies(
        http=first("http_proxy") or everything,
        https=first("https_proxy", "HTTPS_PROXY") or everything,
        no_proxy=tuple(entry for entry in first("no_proxy", "NO_PROXY").replace(",", " ").split() if entry),
    )


def proxy_for(origin: Origin, proxies: Proxies) -> tuple[Origin, str] | None:
    """The proxy's origin and its `user:password`; None to go straight."""
    proxy = proxies.https if origin.scheme == "https" else proxies.http
    if not proxy or any(_excepted(origin, entry) for entry in proxies.no_proxy):
        return None
    return parse_proxy(proxy)


def _excepted(origin: Origin, entry: str) -> bool:
    entry = entry.lower()
    host, _, port = entry.rpartition(":")
    if host and port.isdecimal() and ":" not in host.strip("[]"):
        return origin.port == int(port) and _excepted(origin, host)
    name = entry.strip("[]").removeprefix("*.").lstrip(".")
    return entry == "*" or origin.host == name or origin.host.endswith(f".{name}")
