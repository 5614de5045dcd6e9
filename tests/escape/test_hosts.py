"""From inside a sandbox to the hosts of a list, and to nobody else: a real client, tunnels and servers."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tool_attacks import Tier, Unavailable, confined

from turnwright.machine.keeper import Keeper
from turnwright.machine.local import LocalMachine, open_local
from turnwright.machine.port import Command, run
from turnwright.wire.egress.addresses import why_not
from turnwright.wire.egress.names import host_list
from turnwright.wire.egress.network import Streams
from turnwright.wire.egress.proxy import Egress

PUBLIC = "93.184.215.14"

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]


class OwnNetwork:
    """In which every name but one means a public address, and that one leads to a server of the test."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.dialled: list[tuple[str, int]] = []

    async def resolve(self, host: str) -> Sequence[str]:
        return ["169.254.169.254"] if host == "rebound.test" else [PUBLIC]

    def why_not(self, address: str) -> str:
        return why_not(address)

    async def dial(self, address: str, port: int) -> Streams:
        self.dialled.append((address, port))
        return await asyncio.open_connection("127.0.0.1", self._port)


@asynccontextmanager
async def machine_with(root: Path, tier: Tier, hosts: Sequence[str]) -> AsyncIterator[tuple[LocalMachine, OwnNetwork]]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        words = asked.partition(b"\r\n")[0] + b" for " + asked.partition(b"Host: ")[2].partition(b"\r\n")[0]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(words), words))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    network = OwnNetwork(server.sockets[0].getsockname()[1])
    egress = Egress(host_list(hosts), network=network)
    (root / "workspace").mkdir()
    keeper = Keeper()
    try:
        sandbox = await confined(root, tier, keeper, door=egress)
    except Unavailable:
        await keeper.close()
        server.close()
        pytest.skip(f"no tier {tier} here")
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    machine = open_local(root / "workspace", keeper=keeper, env=env, spool=root / "spool", sandbox=sandbox)
    try:
        yield machine, network
    finally:
        await machine.close()
        await keeper.close()
        await egress.close()
        server.close()


@pytest.mark.parametrize("tier", ["namespaces", "kernel-lite"])
async def test_curl_reaches_the_hosts_of_the_list_and_no_others(tmp_path: Path, tier: Tier) -> None:
    async with machine_with(tmp_path, tier, ["example.test", "rebound.test"]) as (machine, network):

        async def curl(*words: str) -> tuple[str, int]:
            argv = ("curl", "-q", "-sS", "--max-time", "10", *words)
            done = await run(machine, Command(argv=argv, merged=False))
            return done.stdout.head.decode(), done.exit_code

        told = "Turnwright: {}\n"
        answers = [
            await curl("http://example.test/a"),
            await curl("--proxytunnel", "http://example.test/b"),
            await curl("http://other.test/"),
            await curl("http://rebound.test/"),
        ]
        assert answers == [
            ("GET /a HTTP/1.1 for example.test", 0),
            ("GET /b HTTP/1.1 for example.test", 0),
            (told.format("other.test is not among machine.hosts."), 0),
            (told.format("rebound.test leads to 169.254.169.254, which is private, local or reserved."), 0),
        ]
        assert network.dialled == [(PUBLIC, 80), (PUBLIC, 80)]
        _, refused = await curl("--noproxy", "*", "http://127.0.0.1:1/")
        assert refused == 7, "past the proxy there is nothing"


async def test_two_commands_at_once_each_have_a_way_out(tmp_path: Path) -> None:
    async with machine_with(tmp_path, "kernel-lite", ["example.test"]) as (machine, network):
        command = Command(argv=("curl", "-q", "-sS", "--max-time", "10", "http://example.test/"), merged=False)
        done = await asyncio.gather(*(run(machine, command) for _ in range(3)))
        assert [each.stdout.head for each in done] == [b"GET / HTTP/1.1 for example.test"] * 3
        assert len(network.dialled) == 3


async def test_an_empty_list_lets_nothing_pass(tmp_path: Path) -> None:
    async with machine_with(tmp_path, "kernel-lite", []) as (machine, network):
        command = Command(argv=("curl", "-q", "-sS", "--max-time", "10", "http://example.test/"), merged=False)
        done = await run(machine, command)
        assert done.stdout.head == b"Turnwright: example.test is not among machine.hosts.\n"
        assert network.dialled == []


@pytest.mark.parametrize("tier", ["namespaces", "kernel-lite"])
def test_from_the_command_line_with_the_real_network(tmp_path: Path, tier: Tier) -> None:
    """The one name that every computer can look up leads where nothing may."""
    (tmp_path / "workspace").mkdir()
    (tmp_path / "home").mkdir()
    words = ["sandbox", "run", "--tier", tier, "--net-hosts", "localhost", "--cwd", str(tmp_path / "workspace")]
    command = [sys.executable, "-m", "turnwright", *words, "--", "curl", "-q", "-sS", "http://localhost/"]
    # What must not go through a proxy by the user's word would be asked for straight, where there is nothing.
    command += ["--noproxy", ""]
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path / "home"), "LANG": "C.UTF-8"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    if "cannot be confined" in done.stderr:
        pytest.skip(done.stderr)
    assert done.stdout.startswith("Turnwright: localhost leads to "), done.stderr
    assert done.stdout.endswith(", which is private, local or reserved.\n")
