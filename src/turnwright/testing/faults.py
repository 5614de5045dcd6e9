"""The fault server: a provider that misbehaves on demand, over real sockets (P19).

The first part of the path chooses the case, whatever follows it: a client that is pointed at
`http://127.0.0.1:PORT/<case>` meets that case. `GET /` lists the table with URLs, `GET /-/seen` what was requested,
`POST /-/forget` begins anew. `python -m turnwright.testing.faults` runs it alone.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, TextIO

import msgspec

from turnwright.testing.dialects.asked import asks_for_stream
from turnwright.testing.exchange import Exchange, play, whole
from turnwright.testing.fault_table import cases as all_cases
from turnwright.testing.fault_table.case import FaultCase

HEAD_BYTES_MAX = 256 * 1024
BODY_BYTES_MAX = 64 * 1024 * 1024
ASIDES = ("/api/show", "/api/ps", "/api/tags")
"""What a client may ask an Ollama server about its models. These are no cases: they are not counted, and not known."""
UNKNOWN = b'{"error":{"message":"There is no such case. GET / lists them.","type":"not_found_error","code":404}}'


class SeenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it came."""

    case: str
    method: str
    path: str
    headers: dict[str, str]
    """With their names in lower case."""
    body: bytes
    at_s: float
    """Seconds since the server began."""


class FaultServer:
    """Plays cases and keeps what it was sent. Made by `serve`."""

    def __init__(self, cases: Iterable[FaultCase], *, pulse_s: float, wall_s: Callable[[], float]) -> None:
        self.cases = {case.id: case for case in cases}
        self.base_url = ""
        self._seen: dict[str, list[SeenRequest]] = {}
        self._pulse_s = pulse_s
        self._wall_s = wall_s
        self._began_s = wall_s()
        self._connections: set[asyncio.Task[None]] = set()

    def add(self, case: FaultCase) -> None:
        self.cases[case.id] = case

    def url(self, case: str) -> str:
        """What a client is given as its base URL."""
        assert case in self.cases, f"no case {case}"
        return f"{self.base_url}/{case}"

    def seen(self, case: str) -> list[SeenRequest]:
        """The requests that met this case, in order."""
        return self._seen.get(case, [])

    def forget(self) -> None:
        self._seen.clear()

    def table(self) -> list[dict[str, Any]]:
        """The rows as plain data, with their URLs, without the bytes."""
        return [row_of(case, self.url(case.id)) for case in self.cases.values()]

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "asyncio runs this in a task"
        self._connections.add(task)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client may leave at any time, and often must
        except asyncio.CancelledError:
            pass  # the server is closing
        finally:
            self._connections.discard(task)
            writer.close()

    async def close_connections(self) -> None:
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await self._read(reader)
        if request is None:
            return False
        exchange = self._own_answer(request) or self._exchange_for(request)
        return await play(exchange, reader, writer, pulse_s=self._pulse_s, wall_s=self._wall_s)

    async def _read(self, reader: asyncio.StreamReader) -> SeenRequest | None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, *_ = [*first.split(" "), "", ""]
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await _read_body(reader, headers)
        case = path.lstrip("/").split("/", 1)[0].split("?", 1)[0]
        at_s = self._wall_s() - self._began_s
        return SeenRequest(case=case, method=method, path=path, headers=headers, body=body, at_s=at_s)

    def _exchange_for(self, request: SeenRequest) -> Exchange:
        case = self.cases.get(request.case)
        if case is None or request.path.partition("?")[0].endswith(ASIDES):
            return whole(404, "application/json", UNKNOWN)
        seen = self._seen.setdefault(case.id, [])
        seen.append(request)
        if case.for_documents and not asks_for_stream(request.path, request.body):
            return case.for_documents
        return case.exchanges[min(len(seen), len(case.exchanges)) - 1]

    def _own_answer(self, request: SeenRequest) -> Exchange | None:
        match request.method, request.path:
            case "GET", "/":
                lines = b"".join(msgspec.json.encode(row) + b"\n" for row in self.table())
                return whole(200, "application/x-ndjson", lines)
            case "GET", "/-/seen":
                counts = {case: len(requests) for case, requests in self._seen.items()}
                return whole(200, "application/json", msgspec.json.encode(counts))
            case "POST", "/-/forget":
                self.forget()
                return whole(200, "application/json", b"{}")
            case _:
                return None


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        pieces = []
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            pieces.append((await reader.readexactly(size + 2))[:-2])
        await reader.readuntil(b"\r\n")
        return b"".join(pieces)
    length = min(int(headers.get("content-length", "0") or 0), BODY_BYTES_MAX)
    return await reader.readexactly(length)


def row_of(case: FaultCase, url: str) -> dict[str, Any]:
    """A case as plain data; only what it promises is in `expected`."""
    row = msgspec.to_builtins(case)
    del row["exchanges"], row["for_documents"]
    row["expected"] = {name: value for name, value in row["expected"].items() if value is not None}
    return {**row, "url": url}


@asynccontextmanager
async def serve(
    cases: Iterable[FaultCase] | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    pulse_s: float = 1.0,
    wall_s: Callable[[], float] = time.time,
) -> AsyncIterator[FaultServer]:
    """The whole table, or these cases. `pulse_s` is how often keep-alives come; tests shorten it with their timers."""
    faults = FaultServer(all_cases() if cases is None else cases, pulse_s=pulse_s, wall_s=wall_s)
    server = await asyncio.start_server(faults.connected, host, port, limit=HEAD_BYTES_MAX)
    bound = server.sockets[0].getsockname()
    faults.base_url = f"http://{host}:{bound[1]}"
    try:
        yield faults
    finally:
        server.close()
        await faults.close_connections()


async def serve_until_cancelled(port: int, pulse_s: float, out: TextIO) -> None:
    """What `turnwright wire serve-faults` runs: the table with its URLs as JSON lines, then the server."""
    async with serve(port=port, pulse_s=pulse_s) as faults:
        for row in faults.table():
            out.write(msgspec.json.encode(row).decode() + "\n")
        out.flush()
        await asyncio.Event().wait()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="turnwright.testing.faults", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--pulse", type=float, default=1.0, metavar="SECONDS", help="time between keep-alives")
    arguments = parser.parse_args(argv)
    with suppress(KeyboardInterrupt):
        asyncio.run(serve_until_cancelled(arguments.port, arguments.pulse, sys.stdout))
    return 0


if __name__ == "__main__":
    sys.exit(main())
