"""A model behind HTTP: codec × endpoint × auth × framing. The `attempt` half of `kernel.ports.Model`, by shape."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import msgspec

from turnwright.providers.codec import Codec
from turnwright.providers.decoder import Decoder, closing
from turnwright.providers.encoded import EncodedMessages
from turnwright.providers.endpoint import Endpoint, request_to
from turnwright.schema.frames import Frame
from turnwright.schema.parts import Part
from turnwright.schema.prompt import Prompt
from turnwright.schema.routes import Route
from turnwright.schema.settings import Timers
from turnwright.wire.capture import Cassette, Recording
from turnwright.wire.connection import Head
from turnwright.wire.exchange import Clock, Ended, Exchange
from turnwright.wire.gate import Reading
from turnwright.wire.http import HttpClient, Request


class HttpRoute(msgspec.Struct, frozen=True, kw_only=True):
    """What stands behind a route's name."""

    endpoint: Endpoint
    codec: Codec


class Captured(Protocol):
    """Hears of every attempt's bytes when it is over, before its last part is given; also when we hung up. `cassette`
    puts them together: most attempts are good, and nobody asks for theirs."""

    def __call__(self, lineage: str, cassette: Callable[[], Cassette]) -> None: ...


class Conversing(Protocol):
    """What an attempt is read from: an Exchange, or a cassette played again."""

    head: Head | None
    ended: Ended | None

    @property
    def reading(self) -> Reading | None: ...

    async def read(self) -> Sequence[Frame] | None: ...

    def progressed(self) -> None: ...

    def finished(self) -> None: ...

    def leave(self) -> None: ...

    def close(self) -> None: ...


class HttpModel:
    """Attempts over HTTP for any number of routes and conversations. It never retries and never chooses."""

    def __init__(
        self,
        client: HttpClient,
        routes: Mapping[str, HttpRoute],
        *,
        clock: Clock,
        wall_s: Callable[[], float],
        timers: Timers,
        agent: str,
        captured: Captured | None = None,
    ) -> None:
        self._client = client
        self._routes = routes
        self._clock = clock
        self._wall_s = wall_s
        self._timers = timers
        self._agent = agent
        self._captured = captured
        self._encoded = EncodedMessages()
        self._requests: dict[tuple[str, str, bool], Request] = {}

    async def attempt(self, route: Route, prompt: Prompt) -> AsyncGenerator[Sequence[Part], None]:
        """Parts in batches as bytes come, `Closed` last. Closing the generator hangs up at once."""
        http = self._routes[route.name]
        streamed = route.stream
        codec, quirks = http.codec, http.endpoint.quirks
        messages = self._encoded.of(prompt, codec, route.name, quirks)
        body = codec.encode_request(prompt, route.model, messages, streamed, quirks)
        recording = Recording() if self._captured else None
        exchange = Exchange(
            self._client,
            self._request(http, route, body),
            asked=codec.framing if streamed else None,
            clock=self._clock,
            timers=self._timers,
            recorder=recording,
        )
        labels = {"route": route.name, "dialect": codec.dialect, "model": route.model}
        reply = ReplyReader(exchange, codec)
        try:
            while (parts := await reply.read()) is not None:
                yield parts
            assert exchange.ended is not None, "a reply is read to its end"
            last = closing(
                codec, exchange.head, exchange.ended, self._wall_s(), decoder=reply.decoder, window=route.window
            )
        finally:
            exchange.close()
            if self._captured and recording and recording.begun:
                self._captured(prompt.lineage, partial(recording.cassette, labels))
        yield last

    def _request(self, http: HttpRoute, route: Route, body: bytes) -> Request:
        """Only the body differs between the requests of a route."""
        key = route.name, route.model, route.stream
        if key not in self._requests:
            self._requests[key] = request_to(
                http.endpoint, http.codec, model=route.model, body=b"", stream=route.stream, agent=self._agent
            )
        return msgspec.structs.replace(self._requests[key], body=body)


FIRST_FRAMES = 8
"""How much of a long batch is read before the first words are given: somebody waits for them."""


class ReplyReader:
    """The parts of one exchange, without its Closed, in batches; then None. Stops at the terminal frame: what follows
    it is not the reply's."""

    def __init__(self, exchange: Conversing, codec: Codec) -> None:
        self.decoder = Decoder(codec)
        self._exchange = exchange
        self._left: Sequence[Frame] = ()
        self._silent = True
        self._over = False

    async def read(self) -> Sequence[Part] | None:
        exchange, decoder = self._exchange, self.decoder
        while not self._over:
            frames = self._left or await exchange.read()
            if frames is None:
                self._over = True
                return decoder.end() or None
            self._left = ()
            if self._silent:
                frames, self._left = frames[:FIRST_FRAMES], frames[FIRST_FRAMES:]
            parts = decoder.feed(frames, exchange.reading)
            if not parts:
                continue
            if decoder.progress(parts):
                self._silent = False
                exchange.progressed()
            if decoder.whole or decoder.failed:
                exchange.leave()
            elif decoder.finished:
                exchange.finished()
            return parts
        return None
