"""The way out for commands, over real sockets; only names and addresses come from a network of the test's own."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_server import Handler, raw_server, read_request, response

from turnwright.schema.errors import InputError
from turnwright.wire.egress.addresses import why_not
from turnwright.wire.egress.names import HostList, Refused, host_list, is_name, parse_authority
from turnwright.wire.egress.network import Streams, SystemNetwork
from turnwright.wire.egress.proxy import Bounds, Egress
from turnwright.wire.egress.requests import parse_request

PUBLIC = "93.184.215.14"


class OwnNetwork:
    """Names from a table; every public address leads to one origin on loopback. Judges addresses as the real one."""

    def __init__(self, port: int, names: Mapping[str, Sequence[str]]) -> None:
        self.names = dict(names)
        self.looked_up: list[str] = []
        self.dialled: list[tuple[str, int]] = []
        self.slow: set[str] = set()
        self._port = port

    async def resolve(self, host: str) -> Sequence[str]:
        self.looked_up.append(host)
        if host in self.slow:
            await asyncio.Event().wait()
        if host not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.names[host]

    def why_not(self, address: str) -> str:
        return why_not(address)

    async def dial(self, address: str, port: int) -> Streams:
        self.dialled.append((address, port))
        if address == "1.2.3.4":
            raise ConnectionRefusedError(111, "Connection refused")
        return await asyncio.open_connection("127.0.0.1", self._port)


class Served:
    def __init__(self, network: OwnNetwork, port: int, egress: Egress) -> None:
        self.network = network
        self.port = port
        self.egress = egress

    async def say(self, request: bytes, *, then: bytes = b"", end: bool = True) -> bytes:
        """All that the proxy answers until it hangs up."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request)
            if then:
                assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
                writer.write(then)
            if end:
                writer.write_eof()
            async with asyncio.timeout(8):
                return await reader.read()
        finally:
            writer.close()


async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    request = await read_request(reader)
    writer.write(response(request, content_type="text/plain"))
    await writer.drain()


@asynccontextmanager
async def serving(
    *hosts: str,
    names: Mapping[str, Sequence[str]] | None = None,
    bounds: Bounds | None = None,
    origin: Handler = hello,
) -> AsyncIterator[Served]:
    async with raw_server(origin) as origin_port:
        network = OwnNetwork(origin_port, {"example.test": [PUBLIC]} if names is None else names)
        egress = Egress(host_list(hosts), network=network, bounds=bounds)
        listening = socket.create_server(("127.0.0.1", 0))
        await egress.serve(listening)
        try:
            yield Served(network, listening.getsockname()[1], egress)
        finally:
            await egress.close()


def refusal(status: str, message: str) -> bytes:
    body = f"Turnwright: {message}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def connect(authority: str) -> bytes:
    return f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()


GET = b"GET / HTTP/1.1\r\nHost: inside\r\n\r\n"


async def test_a_tunnel_to_an_allowed_host_carries_bytes_both_ways() -> None:
    async with serving("example.test") as served:
        answer = await served.say(connect("Example.TEST:443"), then=GET)
        assert (answer, served.network.dialled) == (response(GET, content_type="text/plain"), [(PUBLIC, 443)])


async def test_a_plain_request_is_passed_on_as_that_of_the_host_that_was_checked() -> None:
    async with serving("example.test") as served:
        request = b"GET http://EXAMPLE.test/a?b HTTP/1.1\r\nHost: other.test\r\nProxy-Authorization: x\r\n"
        request += b"Connection: keep-alive\r\nAccept: */*\r\n\r\n"
        passed_on = b"GET /a?b HTTP/1.1\r\nHost: example.test\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        assert await served.say(request) == response(passed_on, content_type="text/plain")
        assert served.network.dialled == [(PUBLIC, 80)]


async def test_a_redirect_is_the_clients_to_follow() -> None:
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"

    async def redirecting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(moved)
        await writer.drain()

    async with serving("example.test", origin=redirecting) as served:
        assert await served.say(b"GET http://example.test/ HTTP/1.1\r\n\r\n") == moved
        assert served.network.looked_up == ["example.test"]


@pytest.mark.parametrize(
    ("hosts", "request_", "answer"),
    [
        ((), connect("example.test:443"), ("403 Forbidden", "example.test is not among machine.hosts.")),
        (("a.test",), connect("b.test:443"), ("403 Forbidden", "b.test is not among machine.hosts.")),
        (("*.a.test",), connect("a.test:443"), ("403 Forbidden", "a.test is not among machine.hosts.")),
        (("*.a.test",), connect("xa.test:443"), ("403 Forbidden", "xa.test is not among machine.hosts.")),
        (
            ("example.test",),
            connect("example.test:22"),
            ("403 Forbidden", "Port 22 of example.test is closed to commands: only 443 and 80 are open."),
        ),
        (
            ("example.test",),
            b"GET http://example.test:8080/ HTTP/1.1\r\n\r\n",
            ("403 Forbidden", "Port 8080 of example.test is closed to commands: only 443 and 80 are open."),
        ),
        (("example.test",), GET, ("400 Bad Request", "Only CONNECT and requests for http:// addresses are served.")),
        (("example.test",), b"\x16\x03\x01\r\n\r\n", ("400 Bad Request", "This is not a request to a proxy.")),
        (("example.test",), b"CONNECT ex", ("400 Bad Request", "The request ended before its headers did.")),
        (
            ("example.test",),
            b"GET http://example.test/ HTTP/1.1\r\nX: a\nHost: b\r\n\r\n",
            ("400 Bad Request", "A header of the request is malformed."),
        ),
    ],
)
async def test_what_is_not_allowed_is_refused_in_words_and_never_looked_up(
    hosts: tuple[str, ...], request_: bytes, answer: tuple[str, str]
) -> None:
    async with serving(*hosts) as served:
        assert await served.say(request_) == refusal(*answer)
        assert served.network.looked_up == []


@pytest.mark.parametrize(
    "authority",
    [
        b"127.0.0.1:443",
        b"127.1:443",
        b"0x7f000001:443",
        b"0x7f.1:443",
        b"0177.0.0.1:443",
        b"2130706433:443",
        b"a.0x7f:443",
        b"[::1]:443",
        b"[::ffff:127.0.0.1]:443",
        b"::1:443",
        b"example.test:443@127.0.0.1:443",
        b"example.test@127.0.0.1:443",
        b"127.0.0.1#example.test:443",
        b"evil.test%00.example.test:443",
        b"evil.test\x00.example.test:443",
        b"evil.test\t.example.test:443",
        b"evil.test/.example.test:443",
        b"evil.test\\.example.test:443",
        b"example\xe3\x80\x82test:443",
        b"ex\xc3\xa4mple.test:443",
        b"example.test.:443",
        b"example..test:443",
        b".example.test:443",
        b"-example.test:443",
        b"example_.test:443",
        b"a" * 64 + b".test:443",
        b"a." * 127 + b"test:443",
        b"example.test",
        b"example.test:",
        b"example.test:0443",
        b"example.test:+443",
        b"example.test:443443",
        b"example.test:\xd9\xa4\xd9\xa4\xd9\xa3",
        b":443",
        b"",
    ],
)
def test_an_authority_that_two_parsers_might_read_differently_is_none(authority: bytes) -> None:
    with pytest.raises(Refused) as refused:
        parse_authority(authority)
    assert refused.value.status == 400


@given(st.binary() | st.text(alphabet="aA0.-:@%[]/\\ \t\u3002", max_size=40).map(str.encode))
def test_whatever_is_accepted_is_a_plain_name(authority: bytes) -> None:
    try:
        host, port = parse_authority(authority)
    except Refused:
        return
    assert is_name(host) and f"{host}:{port}".encode() == authority.lower()


@given(st.binary(max_size=300))
def test_a_head_is_a_request_or_refused(head: bytes) -> None:
    for start in (b"", b"CONNECT a.test:443 HTTP/1.1\r\n", b"GET http://a.test/ HTTP/1.1\r\n"):
        try:
            asked = parse_request(start + head + b"\r\n\r\n")
        except Refused:
            continue
        assert is_name(asked.host)
        assert asked.head is None or (asked.head.count(b"\r\n\r\n") == 1 and asked.head.endswith(b"\r\n\r\n"))


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.1.2.3",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.168.1.1",
        "198.19.0.1",
        "224.0.0.251",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:93.184.215.14",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::5db8:d70e",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%lo",
        "fec0::1",
        "ff02::1",
    ],
)
async def test_no_allowed_name_leads_to_a_private_address(address: str) -> None:
    for addresses in ([address], [PUBLIC, address]):
        async with serving("example.test", names={"example.test": addresses}) as served:
            words = f"example.test leads to {address}, which is private, local or reserved."
            assert await served.say(connect("example.test:443")) == refusal("403 Forbidden", words)
            assert served.network.dialled == []


@pytest.mark.parametrize("address", [PUBLIC, "172.32.0.1", "2606:2800:21f::1", "64:ff9b::5db8:d70e"])
def test_public_addresses_are_open(address: str) -> None:
    assert why_not(address) == ""


def test_an_address_of_this_computer_is_not_open_though_it_be_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback stands for an address of ours: no other can be had everywhere."""
    monkeypatch.setattr("turnwright.wire.egress.addresses._BLOCKED_V4", ())
    assert (why_not("127.0.0.1"), why_not(PUBLIC)) == ("is this computer's own", "")


async def test_a_name_means_what_it_meant_at_first() -> None:
    async with serving("example.test") as served:
        await served.say(connect("example.test:443"), then=GET)
        served.network.names["example.test"] = ["127.0.0.1"]
        assert await served.say(connect("example.test:443"), then=GET) == response(GET, content_type="text/plain")
        assert (served.network.looked_up, served.network.dialled) == (["example.test"], [(PUBLIC, 443)] * 2)


async def test_a_name_whose_addresses_are_all_dead_is_looked_up_and_judged_again() -> None:
    async with serving("example.test", names={"example.test": ["1.2.3.4"]}) as served:
        words = "example.test cannot be reached: [Errno 111] Connection refused."
        assert await served.say(connect("example.test:443")) == refusal("502 Bad Gateway", words)
        served.network.names["example.test"] = ["10.0.0.1"]
        words = "example.test leads to 10.0.0.1, which is private, local or reserved."
        assert await served.say(connect("example.test:443")) == refusal("403 Forbidden", words)


async def test_the_next_address_is_tried_and_an_unknown_name_is_said_to_be_one() -> None:
    async with serving("*.example.test", names={"a.example.test": ["1.2.3.4", PUBLIC]}) as served:
        assert await served.say(connect("a.example.test:80"), then=GET) == response(GET, content_type="text/plain")
        words = "b.example.test cannot be looked up: Name or service not known."
        assert await served.say(connect("b.example.test:443")) == refusal("502 Bad Gateway", words)


async def test_everything_has_a_bound() -> None:
    bounds = Bounds(connections=2, head_bytes=1024, head_s=0.3, connect_s=0.3, idle_s=0.5, names=1)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    names = {"example.test": [PUBLIC], "slow.test": [PUBLIC]}
    async with serving("example.test", "slow.test", names=names, bounds=bounds, origin=silent) as served:
        served.network.slow.add("slow.test")
        late = refusal("408 Request Timeout", "The request did not come within 0.3 s.")
        assert await served.say(b"CONNECT exam", end=False) == late
        large = refusal("431 Request Header Fields Too Large", "The request's headers are larger than 1024 bytes.")
        assert await served.say(connect("example.test:443")[:-2] + b"X: " + b"a" * 2000 + b"\r\n\r\n") == large
        slow = refusal("504 Gateway Timeout", "slow.test did not answer within 0.3 s.")
        assert await served.say(connect("slow.test:443")) == slow

        began = asyncio.get_running_loop().time()
        idle = asyncio.gather(*(served.say(connect("example.test:443"), then=b"x", end=False) for _ in range(2)))
        await asyncio.sleep(0.2)
        full = refusal("503 Service Unavailable", "More than 2 connections are open.")
        assert await served.say(connect("example.test:443"), end=True) == full
        assert await idle == [b"", b""]
        assert 0.4 < asyncio.get_running_loop().time() - began < 5


async def test_a_large_body_arrives_whole_and_closing_ends_what_runs() -> None:
    body = bytes(range(256)) * 40_000

    async def large(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(body)
        await writer.drain()

    async with serving("example.test", origin=large) as served:
        assert await served.say(connect("example.test:443"), then=GET, end=False) == body
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(connect("example.test:443"))
        await reader.readuntil(b"\r\n\r\n")
    assert await reader.read() == b""
    writer.close()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_curl_speaks_to_it() -> None:
    async with serving("example.test", "a.test") as served:
        asked = []
        for url in ("http://example.test/x", "http://other.test/", "http://127.0.0.1/"):
            arguments = ("-sS", "-q", "-x", f"http://127.0.0.1:{served.port}", "-o", "/dev/null", "-w", "%{http_code}")
            curl = await asyncio.create_subprocess_exec(
                "curl", *arguments, url, stdout=asyncio.subprocess.PIPE, env={"PATH": "/usr/bin:/bin"}
            )
            asked.append((await curl.communicate())[0].decode())
        assert asked == ["200", "403", "400"]


@pytest.mark.parametrize(
    "entry",
    ["", "*", "*.test", "https://a.test", "a.test:443", "a.test/x", "127.0.0.1", "[::1]", "bücher.test", "a b.test"],
)
def test_what_is_no_name_cannot_be_allowed(entry: str) -> None:
    with pytest.raises(InputError) as wrong:
        host_list([entry])
    assert wrong.value.args == (f"{entry!r} is not the name of a host that commands may reach.",)


def test_names_and_names_below_a_name() -> None:
    hosts = host_list(["Example.test", "*.a.example.test"])
    assert hosts == HostList(frozenset({"example.test"}), (".a.example.test",))
    asked = ["example.test", "b.example.test", "a.example.test", "b.a.example.test", "c.b.a.example.test"]
    assert [hosts.allows(host) for host in asked] == [True, False, False, True, True]


async def test_one_of_several_doors_is_closed() -> None:
    """Each command has a socket of its own; the addresses of names are common to all."""
    async with serving("example.test") as served:
        listening = socket.create_server(("127.0.0.1", 0))
        another = Served(served.network, listening.getsockname()[1], served.egress)
        stop = await served.egress.serve(listening)
        answers = [await each.say(connect("example.test:443"), then=GET) for each in (served, another)]
        stop()
        with pytest.raises(ConnectionRefusedError):
            await another.say(GET)
        assert await served.say(connect("example.test:443"), then=GET) == answers[0] == answers[1]
        assert served.network.looked_up == ["example.test"]


async def test_the_systems_network_looks_up_and_judges() -> None:
    network = SystemNetwork()
    found = await network.resolve("localhost")
    assert found and {network.why_not(address) for address in found} == {"is private, local or reserved"}
