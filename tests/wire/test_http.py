"""The client against servers of a few lines: what is sent, what is kept, what each fault is called."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import struct
import subprocess
import time
from pathlib import Path

import pytest
from raw_server import LAST_CHUNK, STREAM_HEAD, Handler, chunk, raw_server, read_request, response, saying

from turnwright.schema.errors import InputError
from turnwright.wire.connection import Connection, Fault, Head
from turnwright.wire.http import HttpClient, Request, head_bytes
from turnwright.wire.proxies import Proxies
from turnwright.wire.url import Origin, parse_url


async def fetched(
    client: HttpClient, url: str, request: Request | None = None
) -> tuple[Head | None, bytes, Fault | None]:
    """One exchange without its timers: head, body and what went wrong."""
    address = parse_url(url)
    connection = client.kept(address.origin) or await client.dial(address.origin, time.monotonic)
    if isinstance(connection, Fault):
        return None, b"", connection
    request = request or Request(method="POST", url=url, body=b"{}")
    connection.begin(client.request_bytes(request, address), time.monotonic)
    body = b""
    while True:
        body += connection.take()
        if connection.done or connection.fault:
            body += connection.take()
            break
        await connection.wait()
    found = connection.head, body, connection.fault
    client.keep(connection, address.origin)
    return found


async def answered(handler: Handler) -> tuple[Head | None, bytes, Fault | None]:
    async with asyncio.timeout(5), raw_server(handler) as port, HttpClient() as client:
        return await fetched(client, f"http://127.0.0.1:{port}/x")


def ending_with(data: bytes) -> Handler:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(data)
        await writer.drain()

    return handler


async def test_the_request_is_sent_as_it_was_written() -> None:
    seen: list[bytes] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(response(b"{}"))
        await writer.drain()

    async with raw_server(handler) as port, HttpClient() as client:
        url = f"http://127.0.0.1:{port}/v1/x?y=1"
        headers = (("X-Second", "b"), ("x-first", "a"), ("Accept", "*/*"))
        await fetched(client, url, Request(method="POST", url=url, headers=headers, body=b"body"))
    lines = [b"POST /v1/x?y=1 HTTP/1.1", b"Host: 127.0.0.1:%d" % port, b"X-Second: b", b"x-first: a", b"Accept: */*"]
    assert seen == [b"\r\n".join([*lines, b"Content-Length: 4", b"", b"body"])]


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (response(b'{"a":1}'), b'{"a":1}'),
        (STREAM_HEAD + chunk(b"ab") + chunk(b"c") + LAST_CHUNK, b"abc"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + response(b"x"), b"x"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + response(b"x"), b"x"),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nTrailer: x\r\n\r\n", b"abc"),
    ],
)
async def test_bodies(data: bytes, body: bytes) -> None:
    head, found, fault = await answered(ending_with(data))
    assert head is not None and 200 <= head.status < 300
    assert (found, fault) == (body, None)


@pytest.mark.parametrize(
    ("data", "body", "kind"),
    [
        (b"", b"", "closed"),
        (b"HTTP/1.1 200 OK\r\nContent-Ty", b"", "closed"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", b"", "protocol"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", b"half", "truncated"),
        (STREAM_HEAD + chunk(b"ab") + b"5\r\nxx", b"abxx", "truncated"),
        (STREAM_HEAD + chunk(b"ab"), b"ab", "truncated"),
        (STREAM_HEAD + chunk(b"ab") + b"zz\r\n", b"ab", "protocol"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", b"", "protocol"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 1_000_000 + b"\r\n\r\n", b"", "protocol"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", b"", "protocol"),
    ],
)
async def test_faults_of_a_connection_that_stood(data: bytes, body: bytes, kind: str) -> None:
    _, found, fault = await answered(ending_with(data))
    assert fault is not None and fault.message
    assert (found, fault.kind) == (body, kind)


async def test_a_reset_is_a_reset() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    _, body, fault = await answered(handler)
    assert fault is not None and (body, fault.kind) == (b"", "reset")


async def test_nobody_listens() -> None:
    async with raw_server(saying(b"")) as port:
        pass
    async with HttpClient() as client:
        head, _, fault = await fetched(client, f"http://127.0.0.1:{port}/")
        assert (head, fault and fault.kind) == (None, "connect")
        assert fault is not None and f"127.0.0.1:{port}" in fault.message


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64 + ".example"])
async def test_no_such_host(host: str) -> None:
    async with asyncio.timeout(20), HttpClient() as client:
        _, _, fault = await fetched(client, f"http://{host}/")
    assert fault is not None and (fault.kind, host in fault.message) == ("dns", True)


async def test_connections_are_reused_and_dead_ones_are_not() -> None:
    connections = 0
    hang_up = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await read_request(reader)
            writer.write(response(b"x"))
            await writer.drain()
            if hang_up.is_set():
                return

    async with raw_server(handler) as port, HttpClient() as client:
        url = f"http://127.0.0.1:{port}/"
        for _ in range(3):
            assert (await fetched(client, url))[1:] == (b"x", None)
        assert connections == 1
        hang_up.set()
        await fetched(client, url)
        await asyncio.sleep(0.02)  # the server has hung up after its answer
        assert (await fetched(client, url))[1:] == (b"x", None)
        assert connections == 2


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
        response(b"x") + b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ny",
        response(b"x") + b"noise",
    ],
)
async def test_a_connection_that_says_too_much_is_not_kept(data: bytes) -> None:
    async with raw_server(saying(data)) as port, HttpClient() as client:
        assert (await fetched(client, f"http://127.0.0.1:{port}/"))[1:] == (b"x", None)
        assert client.kept(Origin("http", "127.0.0.1", port)) is None


async def test_noise_on_an_idle_connection_ends_it() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(response(b"x"))
        await asyncio.sleep(0.02)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
        await reader.read()

    async with raw_server(handler) as port, HttpClient() as client:
        assert (await fetched(client, f"http://127.0.0.1:{port}/"))[1] == b"x"
        await asyncio.sleep(0.05)
        assert client.kept(Origin("http", "127.0.0.1", port)) is None


async def test_aborting_is_seen_by_the_server_at_once() -> None:
    gone = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(STREAM_HEAD)
        await reader.read()
        gone.set()

    async with raw_server(handler) as port, HttpClient() as client:
        address = parse_url(f"http://127.0.0.1:{port}/")
        connection = await client.dial(address.origin, time.monotonic)
        assert isinstance(connection, Connection)
        connection.begin(client.request_bytes(Request(method="POST", url=""), address), time.monotonic)
        while connection.head is None:
            await connection.wait()
        client.discard(connection)
        async with asyncio.timeout(0.5):
            await gone.wait()


async def test_a_slow_reader_makes_the_server_wait() -> None:
    sent = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n")
        for _ in range(1600):
            writer.write(bytes(65536))
            await writer.drain()
            sent += 65536

    async with asyncio.timeout(20), raw_server(handler) as port, HttpClient() as client:
        address = parse_url(f"http://127.0.0.1:{port}/")
        connection = await client.dial(address.origin, time.monotonic)
        assert isinstance(connection, Connection)
        connection.begin(client.request_bytes(Request(method="POST", url=""), address), time.monotonic)
        await asyncio.sleep(0.2)
        assert sent < 40_000_000
        came = 0
        while not connection.done:
            came += len(connection.take())
            await connection.wait()
        assert came + len(connection.take()) == 104857600
        client.keep(connection, address.origin)


@pytest.mark.parametrize(
    ("name", "value"), [("X", "a\r\nY: b"), ("X", "a\nb"), ("X y", "a"), ("", "a"), ("X", "a\0"), ("X", "ключ")]
)
def test_a_header_cannot_start_another_line(name: str, value: str) -> None:
    with pytest.raises(InputError):
        head_bytes(Request(method="GET", url="", headers=((name, value),)), "/", "a")


async def test_a_plain_proxy_gets_the_whole_address() -> None:
    seen: list[bytes] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(response(b"by proxy"))
        await writer.drain()

    async with raw_server(handler) as port:
        proxies = Proxies(http=f"http://me:pw@127.0.0.1:{port}")
        async with HttpClient(proxies=proxies) as client:
            assert (await fetched(client, "http://far.invalid/x"))[1] == b"by proxy"
    assert seen[0].startswith(b"POST http://far.invalid/x HTTP/1.1\r\nHost: far.invalid\r\n")
    assert b"Proxy-Authorization: Basic bWU6cHc=\r\n" in seen[0]


async def test_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await answered(ending_with(response(b"direct"))))[1] == b"direct"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost with its key, made here."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture
def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    return context


async def test_certificates_are_checked(certificate: Path, server_tls: ssl.SSLContext) -> None:
    ca_file = str(certificate / "cert.pem")
    async with asyncio.timeout(10), raw_server(saying(response(b"x")), tls=server_tls) as port:
        async with HttpClient() as client:
            _, _, fault = await fetched(client, f"https://localhost:{port}/")
            assert fault is not None and (fault.kind, "certificate" in fault.message) == ("tls", True)
        async with HttpClient(ca_file=ca_file) as client:
            assert (await fetched(client, f"https://localhost:{port}/"))[1:] == (b"x", None)
            assert (await fetched(client, f"https://localhost:{port}/"))[1:] == (b"x", None)
            _, _, fault = await fetched(client, f"https://127.0.0.1:{port}/")
            assert fault is not None and fault.kind == "tls"


async def test_no_tls_where_tls_is_spoken() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with asyncio.timeout(10), raw_server(plain) as port, HttpClient() as client:
        _, _, fault = await fetched(client, f"https://localhost:{port}/")
    assert fault is not None and fault.kind in ("tls", "connect")


async def test_tls_inside_a_tunnel(certificate: Path, server_tls: ssl.SSLContext) -> None:
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head)
        if b"refused" in head:
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return
        there, to_there = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

        try:
            await asyncio.gather(pump(reader, to_there), pump(there, writer))
        finally:
            to_there.close()

    async with (
        asyncio.timeout(10),
        raw_server(saying(response(b"far")), tls=server_tls) as port,
        raw_server(proxy) as via,
    ):
        proxies = Proxies(https=f"http://u:p@127.0.0.1:{via}")
        async with HttpClient(proxies=proxies, ca_file=str(certificate / "cert.pem")) as client:
            assert (await fetched(client, f"https://localhost:{port}/"))[1:] == (b"far", None)
            assert (await fetched(client, f"https://localhost:{port}/"))[1:] == (b"far", None)
            _, _, fault = await fetched(client, "https://refused.invalid/")
            assert fault is not None and (fault.kind, "403" in fault.message) == ("proxy", True)
    assert len(asked) == 2
    assert asked[0].startswith(b"CONNECT localhost:%d HTTP/1.1\r\n" % port)
    assert b"Proxy-Authorization: Basic dTpw\r\n" in asked[0]


async def test_certificates_that_cannot_be_read(tmp_path: Path) -> None:
    async with HttpClient(ca_file=str(tmp_path / "none.pem")) as client:
        with pytest.raises(InputError, match=r"none\.pem"):
            await fetched(client, "https://localhost:1/")
