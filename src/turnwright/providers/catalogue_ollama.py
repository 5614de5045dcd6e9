"""How much an Ollama server really holds: its models can take more than it lets them, and it cuts in silence (P16)."""

from __future__ import annotations

from typing import Any

import msgspec

from turnwright.providers.catalogue import Known
from turnwright.providers.codec import Codec
from turnwright.providers.endpoint import Endpoint, request_to, url_of
from turnwright.schema.settings import Timers
from turnwright.wire.exchange import Clock, Exchange
from turnwright.wire.http import HttpClient, Request

PATIENCE = Timers(connect_s=2.0, first_byte_s=2.0, gap_s=2.0, total_s=2.0)


class OllamaServer:
    """Asks one server about one model. What it does not say is unknown, and so is all that it says too late."""

    def __init__(
        self, client: HttpClient, endpoint: Endpoint, codec: Codec, model: str, *, clock: Clock, agent: str
    ) -> None:
        self._client = client
        self._endpoint = endpoint
        self._codec = codec
        self._model = model
        self._clock = clock
        self._agent = agent

    async def known(self) -> Known:
        """The window that we ask for, else that of the running model, else that of its file. Never the model's own
        limit: the server gives it less unless it is told."""
        shown = await self._asked("POST", "/api/show", msgspec.json.encode({"model": self._model}))
        if not shown:  # it does not know the model, or is no Ollama: nothing else would tell more
            return Known(id=self._model, window=self._asked_for())
        able = shown.get("capabilities")
        abilities = able if isinstance(able, list) else None
        return Known(
            id=self._model,
            window=self._asked_for() or await self._running() or _parameter(shown.get("parameters"), "num_ctx"),
            tools=None if abilities is None else "tools" in abilities,
            images=None if abilities is None else "vision" in abilities,
            reasoning=None if abilities is None else "thinking" in abilities,
        )

    def _asked_for(self) -> int | None:
        options = self._endpoint.quirks.extra_body.get("options")
        return _count(options.get("num_ctx")) if isinstance(options, dict) else None

    async def _running(self) -> int | None:
        listed = (await self._asked("GET", "/api/ps", b"")).get("models")
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, dict) and each.get("name") in (self._model, f"{self._model}:latest"):
                return _count(each.get("context_length"))
        return None

    async def _asked(self, method: str, path: str, body: bytes) -> dict[str, Any]:
        exchange = Exchange(
            self._client, self._request(method, path, body), asked=None, clock=self._clock, timers=PATIENCE
        )
        data = b""
        try:
            while (frames := await exchange.read()) is not None:
                data += b"".join(frame.data for frame in frames)
        finally:
            exchange.close()
        try:
            said = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            return {}
        return said if isinstance(said, dict) else {}

    def _request(self, method: str, path: str, body: bytes) -> Request:
        request = request_to(self._endpoint, self._codec, model=self._model, body=body, stream=False, agent=self._agent)
        own = self._codec.path(self._model, False)
        base = msgspec.structs.replace(self._endpoint, base_url=self._endpoint.base_url.removesuffix(own))
        return msgspec.structs.replace(request, method=method, url=url_of(base, path))


def _parameter(parameters: object, name: str) -> int | None:
    """`num_ctx    8192`, one a line."""
    for line in parameters.splitlines() if isinstance(parameters, str) else ():
        key, _, value = line.strip().partition(" ")
        if key == name and value.strip().isdecimal():
            return _count(int(value))
    return None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
