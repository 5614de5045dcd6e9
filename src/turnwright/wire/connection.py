"""One connection to a server: writes requests, parses responses as their bytes come. HTTP/1.1 over asyncio."""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, cast

import httptools
import msgspec

HEAD_BYTES_MAX = 256 * 1024
UNREAD_BYTES_MAX = 4 * 1024 * 1024
"""Beyond this the server is made to wait, so that a slow reader bounds memory."""

FaultKind: TypeAlias = Literal["dns", "connect", "tls", "proxy", "reset", "closed", "truncated", "protocol"]


class Fault(msgspec.Struct, frozen=True):
    """What went wrong below the content. `closed`: no answer came; `truncated`: the body ended before its time."""

    kind: FaultKind
    message: str


class Head(msgspec.Struct, frozen=True):
    """The first part of a response. Names are lower case, in the order they came."""

    status: int
    headers: tuple[tuple[str, str], ...]

    def first(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")


class Connection(asyncio.Protocol):
    """Serves one exchange at a time. `take` gives what has come, `wait` waits for more of anything.

    `head`, `done` and `fault` only ever go from nothing to something within one exchange.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.head: Head | None = None
        self.done = False
        self.fault: Fault | None = None
        self.bytes_in = 0
        self.arrived_s = 0.0
        """When bytes last came, by `now`."""
        self.idle_since_s = 0.0
        self._now = now
        self._transport: asyncio.Transport | None = None
        self._lost = False
        self._busy = False
        self._keep = False
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._when_done: Callable[[], object] | None = None
        self._forget()

    def _forget(self) -> None:
        self.head, self.done, self.fault, self.bytes_in = None, False, None, 0
        self._chunks: list[bytes] = []
        self._unread = 0
        self._head_bytes = 0
        self._headers: list[tuple[str, str]] = []
        self._parser = httptools.HttpResponseParser(self)

    # What an exchange does.

    def begin(self, request: Sequence[bytes], now: Callable[[], float]) -> None:
        """Send a request, given in pieces; the response is that of this one from here on."""
        assert self._transport is not None and not self._busy
        self._forget()
        self._busy = True
        self._now = now
        self.arrived_s = now()
        for piece in request:
            # A view: the transport would copy what the socket does not take at once, more than once.
            self._transport.write(memoryview(piece))

    def take(self) -> bytes:
        """The body that came since the last time."""
        chunks = self._chunks
        if not chunks:
            return b""
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self._chunks = []
        self._unread = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    async def wait(self) -> None:
        """Until more has come, or the end."""
        if self._chunks or self.done or self.fault:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def abort(self) -> None:
        """Hang up at once: nothing that waits to be sent is sent."""
        self._busy = False
        self._when_done = None
        if self._transport is not None and not self._lost:
            self._lost = True
            self._transport.abort()

    def end(self) -> bool:
        """The exchange is over. True if the connection can carry another one."""
        reusable = self.done and self._keep and not self._lost and not self._unread
        self._busy = False
        self._when_done = None
        return reusable

    def drain(self, when_done: Callable[[], object]) -> None:
        """Read on without a reader; call back when the response has ended one way or another."""
        self.take()
        self._when_done = when_done

    @property
    def stale(self) -> bool:
        """Whether the server has hung up, or spoken out of turn, while nothing was asked of it."""
        if self._lost or self._transport is None or self._transport.is_closing():
            return True
        descriptor = self._transport.get_extra_info("socket")
        if descriptor is None or descriptor.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(descriptor.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    def adopt(self, transport: asyncio.Transport) -> None:
        """Speak over this transport, which took the place of another (TLS inside a tunnel)."""
        self._transport = transport

    # What asyncio says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            self.abort()
            return
        self.arrived_s = self._now()
        self.bytes_in += len(data)
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._broken("the server switched to another protocol")
        except httptools.HttpParserError as wrong:
            if not self.done:
                self._broken(f"what came is not HTTP ({_words(wrong)}): {data[:80]!r}")
            self._keep = False
        if self.head is None and self._head_bytes > HEAD_BYTES_MAX:
            self._broken(f"the response headers are larger than {HEAD_BYTES_MAX} bytes")
        if self._when_done is not None:
            self._chunks = []
            self._unread = 0
            if self.done:
                self._when_done()
                return
        if self._unread > UNREAD_BYTES_MAX and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        if self._busy and not self.done and self.fault is None:
            if self.head is None:
                self.fault = _lost_before_head(exc)
            elif exc is not None:
                kind: FaultKind = "tls" if isinstance(exc, ssl.SSLError) else "reset"
                self.fault = Fault(kind, f"the connection broke inside the body: {_words(exc)}")
            elif self._delimited:
                self.fault = Fault("truncated", "the connection was closed inside the body")
            else:
                self.done = True
        if self._when_done is not None:
            self._when_done()
        self.wake()

    @property
    def _delimited(self) -> bool:
        """Whether the body says where it ends; otherwise the end of the connection is its end."""
        return self.head is not None and bool(self.head.first("content-length") or self.head.first("transfer-encoding"))

    def _broken(self, message: str) -> None:
        self.fault = self.fault or Fault("protocol", message)
        self._lost = True
        if self._transport is not None:
            self._transport.abort()

    # What the parser says.

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.head is None:
            self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        if self.done or self.head is not None:
            return
        status = self._parser.get_status_code()
        if status >= 200:
            self.head = Head(status, tuple(self._headers))
        self._headers = []  # those of an interim response (1xx) are nobody's

    def on_body(self, body: bytes) -> None:
        if not self.done:
            self._chunks.append(body)
            self._unread += len(body)

    def on_message_complete(self) -> None:
        if self.head is not None and not self.done:
            self.done = True
            self._keep = self._parser.should_keep_alive()

    def on_message_begin(self) -> None:
        if self.done:
            self._keep = False  # a second answer to one question: nothing on this connection can be trusted


def _lost_before_head(exc: Exception | None) -> Fault:
    if exc is None:
        return Fault("closed", "the server closed the connection without an answer")
    return Fault("tls" if isinstance(exc, ssl.SSLError) else "reset", f"the connection broke: {_words(exc)}")


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
