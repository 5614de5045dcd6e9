"""The HTTP client: connections, their reuse, TLS and proxies. Nothing is opened or loaded before the first request.

Why it is built of asyncio's transports and httptools' parser: `docs/explanation/http-client.md`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Self, cast

import msgspec

from turnwright.schema.errors import InputError
from turnwright.wire.connection import Connection, Fault
from turnwright.wire.proxies import Proxies, proxy_for
from turnwright.wire.url import Origin, Url

LONG_BODY_BYTES = 128 * 1024
"""From here on a second write to the socket is cheaper than a copy."""
IDLE_S = 60.0
"""How long an unused connection is kept."""
DRAIN_S = 1.0
"""How long the end of a body is waited for after the reply was whole."""
FIRST_ADDRESS_S = 0.25
"""How long the first address of a host may keep silent before the next is tried beside it (RFC 8305)."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Headers are sent in this order and spelling, after Host and before Content-Length."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class HttpClient:
    """One per process or per event loop. Leaving it hangs up everything it still holds.

    It never repeats a request, never follows a redirect, never decompresses and never reads the environment.
    """

    def __init__(self, *, proxies: Proxies | None = None, ca_file: str = "") -> None:
        self._proxies = proxies or Proxies()
        self._ca_file = ca_file
        self._tls: ssl.SSLContext | None = None
        self._idle: dict[Origin, list[Connection]] = {}
        self._open: set[Connection] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in tuple(self._open):
            self.discard(connection)
        self._idle.clear()
        await asyncio.sleep(0)  # lets the transports say goodbye to their sockets

    def kept(self, origin: Origin) -> Connection | None:
        """A connection of an earlier exchange that is still alive."""
        kept = self._idle.get(origin, [])
        while kept:
            connection = kept.pop()
            if _now() - connection.idle_since_s < IDLE_S and not connection.stale:
                return connection
            self.discard(connection)
        return None

    async def dial(self, origin: Origin, now: Callable[[], float]) -> Connection | Fault:
        """A new connection. Safe to cancel."""
        opened = await self._connect(origin, now)
        if isinstance(opened, Connection):
            self._open.add(opened)
        return opened

    def request_bytes(self, request: Request, url: Url) -> Sequence[bytes]:
        """What is written for a request, proxies taken into account. A long body comes by itself: it is not copied."""
        proxy = proxy_for(url.origin, self._proxies) if url.origin.scheme == "http" else None
        target = f"http://{url.origin.authority}{url.target}" if proxy else url.target
        extra = (("Proxy-Authorization", _basic(proxy[1])),) if proxy and proxy[1] else ()
        head = head_bytes(request, target, url.origin.authority, extra)
        return (head + request.body,) if len(request.body) < LONG_BODY_BYTES else (head, request.body)

    def keep(self, connection: Connection, origin: Origin) -> None:
        """After an exchange: hold the connection for the next one, if it can carry one."""
        if connection in self._open and connection.end():
            connection.idle_since_s = _now()
            self._idle.setdefault(origin, []).append(connection)
        else:
            self.discard(connection)

    def drain(self, connection: Connection, origin: Origin) -> None:
        """After a reply that was whole before its body ended: read the rest aside, then keep the connection."""
        if connection.done:
            self.keep(connection, origin)
            return
        late = asyncio.get_running_loop().call_later(DRAIN_S, self.discard, connection)

        def over() -> None:
            late.cancel()
            self.keep(connection, origin)

        connection.drain(over)

    def discard(self, connection: Connection) -> None:
        self._open.discard(connection)
        connection.abort()

    async def _connect(self, origin: Origin, now: Callable[[], float]) -> Connection | Fault:
        proxy = proxy_for(origin, self._proxies)
        try:
            if proxy is None:
                return await self._dial(origin, now, self._context() if origin.scheme == "https" else None)
            connection = await self._dial(proxy[0], now, None)
            if origin.scheme == "https":
                return await self._tunnel(connection, origin, proxy[1], now)
            return connection
        except socket.gaierror as wrong:
            return Fault("dns", f"the host {(proxy[0] if proxy else origin).host} was not found ({wrong.strerror})")
        except ssl.SSLCertVerificationError as wrong:
            return Fault("tls", f"the certificate of {origin.host} was refused: {wrong.verify_message}")
        except ssl.SSLError as wrong:
            return Fault("tls", f"no TLS with {origin.host}: {wrong.reason or wrong}")
        except OSError as wrong:
            reached = proxy[0] if proxy else origin
            return Fault("connect", f"no connection to {reached.host}:{reached.port}: {_os_words(wrong)}")

    async def _dial(self, origin: Origin, now: Callable[[], float], tls: ssl.SSLContext | None) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            _, protocol = await loop.create_connection(
                lambda: Connection(now),
                origin.host,
                origin.port,
                ssl=tls,
                server_hostname=origin.host if tls else None,
                happy_eyeballs_delay=FIRST_ADDRESS_S,
            )
        except UnicodeError as wrong:  # a host name that cannot be encoded
            raise socket.gaierror(socket.EAI_NONAME, str(wrong)) from wrong
        return protocol

    async def _tunnel(
        self, connection: Connection, origin: Origin, user: str, now: Callable[[], float]
    ) -> Connection | Fault:
        """Ask a proxy for a way through to `origin`, and speak TLS inside it."""
        target = f"{origin.host}:{origin.port}" if ":" not in origin.host else f"[{origin.host}]:{origin.port}"
        extra = (("Proxy-Authorization", _basic(user)),) if user else ()
        connection.begin([head_bytes(Request(method="CONNECT", url=""), target, target, extra)], now)
        try:
            while connection.head is None and connection.fault is None:
                await connection.wait()
            if connection.head is None or not 200 <= connection.head.status < 300:
                said = f"it answered {connection.head.status}" if connection.head else "it did not answer"
                connection.abort()
                return Fault("proxy", f"the proxy opened no way to {target}: {said}")
            inside = Connection(now)
            transport = await asyncio.get_running_loop().start_tls(
                connection.transport, inside, self._context(), server_hostname=origin.host
            )
        except BaseException:
            connection.abort()
            raise
        inside.adopt(cast(asyncio.Transport, transport))
        return inside

    def _context(self) -> ssl.SSLContext:
        """Made at the first https request: loading the system's certificates takes tens of milliseconds."""
        if self._tls is None:
            try:
                self._tls = ssl.create_default_context(cafile=self._ca_file or None)
            except (OSError, ssl.SSLError) as wrong:
                raise InputError(f"The certificates in {self._ca_file} cannot be read: {wrong}.") from wrong
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


def _now() -> float:
    return asyncio.get_running_loop().time()


def head_bytes(request: Request, target: str, authority: str, extra: tuple[tuple[str, str], ...] = ()) -> bytes:
    """The request line and headers. A header that could start another line is refused: it would be another request."""
    start, sized = _head_start(request.method, target, authority, request.headers + extra)
    if sized or not (request.body or request.method in ("POST", "PUT", "PATCH")):
        return start + b"\r\n"
    return b"%bContent-Length: %d\r\n\r\n" % (start, len(request.body))


@lru_cache(maxsize=64)
def _head_start(method: str, target: str, authority: str, headers: tuple[tuple[str, str], ...]) -> tuple[bytes, bool]:
    """All lines but the Content-Length of our own, which alone differs between the requests of a route; and whether
    the headers hold one already."""
    lines = [f"{method} {target} HTTP/1.1"]
    names = {name.lower() for name, _ in headers}
    if "host" not in names:
        lines.append(f"Host: {authority}")
    for name, value in headers:
        check_header(name, value)
        lines.append(f"{name}: {value}")
    return ("\r\n".join(lines) + "\r\n").encode("latin-1"), "content-length" in names


_FORBIDDEN = frozenset("\r\n\0")
_NAME = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def check_header(name: str, value: str) -> None:
    if not name or not _NAME.issuperset(name):
        raise InputError(f"{name!r} cannot be the name of a header.", remedy="One holds letters, digits and dashes.")
    if not _FORBIDDEN.isdisjoint(value) or any(ord(character) > 255 for character in value):
        raise InputError(
            f"The value of the header {name} holds a line break or characters outside Latin-1.",
            remedy="Check the key or the header in the configuration; a copied key often brings its line break along.",
        )


def _basic(user: str) -> str:
    return "Basic " + b64encode(user.encode()).decode()


def _os_words(error: OSError) -> str:
    """The system's own: asyncio puts addresses in their place."""
    if error.errno and str(error.strerror).startswith("Connect call failed"):
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__
