"""The wire of a server at an address: streamable HTTP as the SDK speaks it, its answers bounded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
CONNECT_S = 10.0


class Told:
    """What the server answered last that was no success: the SDK itself does not say."""

    status = ""


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends with an error where it grows too long. One of events may go on for ever: each event counts for
    itself, and the SDK counts those."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, packed: bool = False) -> None:
        """What is small when packed and large when not would pass every bound: it is not read at all."""
        self._stream, self._packed = stream, packed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._packed:
            raise httpx2.StreamError("it sent a packed answer, which was not asked for")
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > MESSAGE_BYTES_MAX:
                raise httpx2.StreamError(f"it sent a message of more than {MESSAGE_BYTES_MAX // 1024 // 1024} MiB")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def http_streams(
    url: str, headers: Mapping[str, str], call_s: float, told: Told
) -> AsyncIterator[TransportStreams]:
    async def look_at(response: httpx2.Response) -> None:
        failed = response.status_code >= 400
        told.status = f"it answered {response.status_code} {response.reason_phrase}".strip() if failed else ""
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        if response.headers.get("content-encoding", "identity") != "identity":
            response.stream = _Bounded(response.stream, packed=True)
        elif not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Bounded(response.stream)

    client = httpx2.AsyncClient(
        headers={**headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(CONNECT_S, read=call_s),
        event_hooks={"response": [look_at]},
    )
    async with (
        client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MESSAGE_BYTES_MAX) as streams,
    ):
        yield streams
