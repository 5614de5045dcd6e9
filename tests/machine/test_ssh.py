"""Another computer over a real sshd: who is let in, what is refused, and what a lost connection leaves behind."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from ssh_server import SshServer, ssh_server

from turnwright.machine.port import Captured, Command, Finished, run
from turnwright.machine.ssh.frames import BadFrame, Frames, encoded
from turnwright.machine.ssh.link import Host
from turnwright.machine.ssh.remote import SshMachine, open_ssh
from turnwright.schema.errors import InputError, MachineError

__all__ = ["ssh_server"]

GoneWithin = Callable[[str, float], bool]


@pytest.fixture
def server(ssh_server: SshServer) -> Iterator[SshServer]:
    yield ssh_server
    ssh_server.configure()


@asynccontextmanager
async def opened(server: SshServer, workspace: Path) -> AsyncIterator[SshMachine]:
    machine = await open_ssh(
        server.host, str(workspace), passed=("PATH", "HOME"), fixed={"PAGER": "cat"}, spool=f"{workspace.parent}/spool"
    )
    try:
        yield machine
    finally:
        await machine.close()


def shell(script: str, timeout_s: float | None = None) -> Command:
    return Command(argv=("sh", "-c", script), timeout_s=timeout_s)


async def test_commands_see_a_clean_environment(server: SshServer, workspace: Path) -> None:
    """The far side's own, but only what tools may see of it."""
    async with opened(server, workspace) as machine:
        finished = await run(machine, shell("env | cut -d= -f1 | sort; pwd; cat"))
    names = finished.stdout.head.decode().split()
    assert (set(names) - {"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"}, names[-1]) == (
        {"HOME", "PAGER", "PATH", str(workspace)},
        str(workspace),
    )


async def test_output_of_a_background_command_is_seen_while_it_runs(server: SshServer, workspace: Path) -> None:
    async with opened(server, workspace) as machine:
        process = await machine.spawn(shell("echo begun; exec sleep 60"))
        end = time.monotonic() + 5
        while process.output() == (Captured(), Captured()) and time.monotonic() < end:
            await asyncio.sleep(0.05)
        assert process.output() == (Captured(head=b"begun\n", size=6, lines=1), Captured())
        assert process.finished is None
        finished = await process.stop()
        assert (finished.how, finished.stdout.head) == ("stopped", b"begun\n")
        assert process.output() == (finished.stdout, finished.stderr)


async def test_output_comes_whole_and_in_order_to_a_slow_reader(server: SshServer, workspace: Path) -> None:
    """Where we do not keep up the command waits, as with any pipe."""
    pieces: list[bytes] = []

    def slowly(piece: bytes, stream: str) -> None:
        pieces.append(piece)
        time.sleep(0.0005)

    async with opened(server, workspace) as machine:
        finished = await run(machine, shell("seq 1 600000"), slowly)
    whole = b"".join(pieces)
    assert (finished.exit_code, finished.stdout.size, len(whole)) == (0, 4_088_895, 4_088_895)
    assert whole == b"".join(b"%d\n" % number for number in range(1, 600_001))


async def test_a_flood_is_stopped_in_time(server: SshServer, workspace: Path, gone_within: GoneWithin) -> None:
    async with opened(server, workspace) as machine:
        began = time.monotonic()
        finished = await run(machine, shell("yes flood-over-ssh", timeout_s=1), lambda piece, stream: None)
        assert (finished.how, time.monotonic() - began < 4) == ("timeout", True)
    assert gone_within("flood-over-ssh", 1.0)


async def test_leaving_early_kills_what_was_started(
    server: SshServer, workspace: Path, gone_within: GoneWithin
) -> None:
    async with opened(server, workspace) as machine:
        task = asyncio.ensure_future(run(machine, shell("setsid sleep 4711 & sleep 4711")))
        await asyncio.sleep(0.5)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 1.0
        assert gone_within("sleep 4711", 1.0)


async def test_a_lost_connection_is_an_unknown_outcome(
    server: SshServer, workspace: Path, gone_within: GoneWithin
) -> None:
    """Killed mid-command: said as unknown; the next call connects again, and nothing is left over there."""
    async with opened(server, workspace) as machine:
        process = await machine.spawn(shell("setsid sleep 4712 & echo begun; sleep 4712"), lambda piece, stream: None)
        await asyncio.sleep(0.3)
        server.drop_connections()
        finished = await asyncio.wait_for(process.wait(), 5)
        assert (finished.how, finished.exit_code) == ("lost", 137)
        assert await process.stop() == finished
        again = await run(machine, shell("echo again"))
        assert (again.how, again.stdout.head) == ("exited", b"again\n")
        assert gone_within("sleep 4712", 1.0)


async def test_a_write_whose_connection_is_lost_says_so(server: SshServer, workspace: Path) -> None:
    async with opened(server, workspace) as machine:
        server.drop_connections()
        with pytest.raises(MachineError, match=r"was lost .*whether what was asked last was done is unknown"):
            for number in range(100):
                await machine.write(f"{number}.txt", b"x" * 100_000)
        assert (await machine.stat(".")).kind == "directory"


async def test_what_merely_looks_is_asked_again(server: SshServer, workspace: Path) -> None:
    (workspace / "a.txt").write_text("alpha")
    async with opened(server, workspace) as machine:
        server.drop_connections()
        assert (await machine.read("a.txt")).data == b"alpha"


PROGRAM = """
import asyncio, sys
from pathlib import Path
from turnwright.machine.port import Command
from turnwright.machine.ssh.link import Host
from turnwright.machine.ssh.remote import open_ssh

async def main():
    host = Host(name="far", config=(Path(sys.argv[1]),))
    machine = await open_ssh(host, sys.argv[2], passed=("PATH",), fixed={})
    for _ in range(5):
        await machine.spawn(Command(argv=("sh", "-c", "setsid sleep 4713 & sleep 4713")))
    print("running", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_kill_9_of_the_runtime_leaves_nothing_over_there(
    server: SshServer, workspace: Path, running: Callable[[str], list[str]], gone_within: GoneWithin
) -> None:
    command = [sys.executable, "-c", PROGRAM, str(server.host.config[0]), str(workspace)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    assert len(running("sleep 4713")) >= 5
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert gone_within("sleep 4713", 1.0)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ("", r"No such file or directory: .*nowhere"),
        ("  UserKnownHostsFile none\n", "would take any host for far"),
        ("  UserKnownHostsFile {other}\n", "is not among the known hosts"),
    ],
    ids=["missing", "none", "another-key"],
)
async def test_only_known_hosts(
    server: SshServer, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: str, said: str
) -> None:
    """Not even where the user's own configuration would let any host in."""
    monkeypatch.setenv("HOME", str(tmp_path))
    other = tmp_path / "other"
    key = (server.folder / "user_key.pub").read_text().split()
    other.write_text(f"[127.0.0.1]:{server.port} {key[0]} {key[1]}\n")
    server.configure(known.format(other=other) or f"  UserKnownHostsFile {tmp_path}/nowhere\n")
    with pytest.raises(MachineError, match=said):
        async with opened(server, workspace):
            pass


async def test_a_key_that_is_not_let_in(server: SshServer, workspace: Path, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    text = server.host.config[0].read_text()
    server.host.config[0].write_text(text.replace(f"{server.folder}/user_key", str(tmp_path / "key")))
    with pytest.raises(MachineError, match=r"far refused us: .*A key that needs no typing is wanted"):
        async with opened(server, workspace):
            pass


async def test_a_host_that_is_not_there(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host far\n  HostName 127.0.0.1\n  Port 1\n")
    with pytest.raises(MachineError, match=r"far cannot be reached: .* Try: ssh far true"):
        await open_ssh(Host(name="far", config=(config,)), "x", passed=(), fixed={})


async def test_a_folder_that_is_not_there(server: SshServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"On far: The folder .*nowhere cannot be opened"):
        async with opened(server, tmp_path / "nowhere"):
            pass


async def test_no_python_over_there(server: SshServer, workspace: Path, tmp_path: Path) -> None:
    with (
        other_server(tmp_path, f"SetEnv PATH={tmp_path}/empty\n") as without,
        pytest.raises(MachineError, match=r"far has no Python 3\.11 or newer"),
    ):
        async with opened(without, workspace):
            pass


def other_server(folder: Path, settings: str, user: str = "") -> _Other:
    return _Other(folder, settings, user)


class _Other:
    """A server with settings of its own."""

    def __init__(self, folder: Path, settings: str, user: str) -> None:
        (folder / "server").mkdir()
        self.server = SshServer(folder / "server", user)
        self.settings = settings

    def __enter__(self) -> SshServer:
        self.server.make()
        path = self.server.folder / "sshd_config"
        kept = [line for line in path.read_text().splitlines(keepends=True) if not line.startswith("SetEnv")]
        path.write_text("".join(kept) + self.settings)
        (self.server.folder.parent / "empty").mkdir()
        for name in ("sh", "bash"):
            (self.server.folder.parent / "empty" / name).symlink_to(f"/bin/{name}")
        self.server.start()
        return self.server

    def __exit__(self, *_: object) -> None:
        self.server.stop()


async def test_whatever_a_login_says_is_passed_over(server: SshServer, workspace: Path) -> None:
    text = (server.folder / "authorized_keys").read_text()
    noisy = f'command="echo Welcome; echo; printf half; exec sh -c \\"$SSH_ORIGINAL_COMMAND\\"" {text}'
    (server.folder / "authorized_keys").write_text(noisy)
    try:
        async with opened(server, workspace) as machine:
            assert (await run(machine, shell("echo hello"))).stdout.head == b"hello\n"
    finally:
        (server.folder / "authorized_keys").write_text(text)


@pytest.fixture
def ordinary_user() -> Iterator[str]:
    """Signals sent over ssh do nothing to root's processes: so once as somebody else."""
    if os.getuid() != 0:
        pytest.skip("only root can make a user")
    name = "tw-far-side"
    subprocess.run(["useradd", "-m", "-p", "*", "-s", "/bin/bash", name], check=True)
    try:
        yield name
    finally:
        subprocess.run(["userdel", "-r", "-f", name], check=True, capture_output=True)


async def test_as_an_ordinary_user(ordinary_user: str, gone_within: GoneWithin) -> None:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tw-ssh-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        with other_server(place, "SetEnv PATH=/usr/local/bin:/usr/bin:/bin\n", ordinary_user) as server:
            server.folder.chmod(0o755)
            home = Path(pwd.getpwnam(ordinary_user).pw_dir)
            (home / "project").mkdir()
            os.chown(home / "project", *pwd.getpwnam(ordinary_user)[2:4])
            try:
                machine = await open_ssh(server.host, "project", passed=("PATH",), fixed={})
            except MachineError as missing:
                pytest.skip(f"the ordinary user has no Python of its own here: {missing}")
            assert machine.workspace == str(home / "project")
            await machine.write("a.txt", b"mine")
            assert (home / "project" / "a.txt").owner() == ordinary_user
            process = await machine.spawn(shell("setsid sleep 4714 & id -un; sleep 4714"))
            await asyncio.sleep(0.3)
            server.drop_connections()
            assert (await process.wait()).how == "lost"
            assert (await run(machine, shell("id -un"))).stdout.head == f"{ordinary_user}\n".encode()
            assert gone_within("sleep 4714", 1.0)
            await machine.close()


def test_frames_however_they_are_cut() -> None:
    sent: list[tuple[dict[str, Any], bytes]] = [
        ({"id": 1, "path": "a\udcff"}, b""),
        ({"id": 2}, b"\0" * 1000),
        ({}, b"x"),
    ]
    wire = b"".join(encoded(head, body) for head, body in sent)
    for size in (1, 7, len(wire)):
        frames = Frames()
        assert [each for at in range(0, len(wire), size) for each in frames.feed(wire[at : at + size])] == sent


@pytest.mark.parametrize("wire", [b"\xff" * 8, b"\1\0\0\0\0\0\0\0{", b"\2\0\0\0\0\0\0\0[]"])
def test_frames_of_somebody_else(wire: bytes) -> None:
    with pytest.raises(BadFrame):
        list(Frames().feed(wire))


def test_finished_is_told_whole() -> None:
    """Each field travels: one that is added later must too."""
    from turnwright.machine.ssh.far_side import packed
    from turnwright.machine.ssh.remote import finished_of

    captured = Captured(head=b"ab", tail=b"cd", size=9, lines=2, spilled_to="/x", spilled_bytes=9, spill_fault="full")
    finished = Finished(
        how="timeout", exit_code=143, stdout=captured, stderr=captured, duration_s=1.5, left_behind=2, unkillable=True
    )
    assert finished_of(*packed(finished)) == finished


def test_what_is_sent_stands_on_nothing_else(tmp_path: Path) -> None:
    """An import that is added to the local machine must find what it wants over there as well."""
    import io
    import zipfile

    from turnwright.machine.ssh.bundle import bundle

    zipfile.ZipFile(io.BytesIO(bundle()[0])).extractall(tmp_path)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import turnwright.machine.ssh.far_side"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
