"""A real sshd of the tests' own, on loopback, with keys made for it. Where there is none, tests that need one skip."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnwright.machine.ssh.link import Host
from turnwright.machine.warden import descendants

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
READY_S = 10.0


class SshServer:
    """Lets in one user, by key: by default whoever runs the tests."""

    def __init__(self, folder: Path, user: str = "") -> None:
        self.folder = folder
        self.user = user or pwd.getpwuid(os.getuid()).pw_name
        self.host = Host(name="far", config=(folder / "client_config",))
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    def make(self) -> None:
        for name in ("host_key", "user_key"):
            path = str(self.folder / name)
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        shutil.copy(self.folder / "user_key.pub", self.folder / "authorized_keys")
        public = (self.folder / "host_key.pub").read_text().split()
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {public[0]} {public[1]}\n")
        path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
        (self.folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host_key\nPidFile {self.folder}/pid\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\nStrictModes no\nUsePAM no\n"
            f"PasswordAuthentication no\nPermitRootLogin yes\nSetEnv PATH={path} SECRET_TOKEN=of-the-far-side\n"
        )
        self.configure()

    def configure(self, extra: str = "") -> None:
        """What the user's own `~/.ssh/config` would say."""
        self.host.config[0].write_text(
            f"Host far\n  HostName 127.0.0.1\n  Port {self.port}\n  User {self.user}\n"
            f"  IdentityFile {self.folder}/user_key\n  IdentitiesOnly yes\n"
            + (extra or f"  UserKnownHostsFile {self.folder}/known_hosts\n")
        )

    def start(self) -> None:
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        log = str(self.folder / "log")
        self._process = subprocess.Popen([str(SSHD), "-D", "-f", str(self.folder / "sshd_config"), "-E", log])
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError(f"sshd did not start: {Path(log).read_text()}")

    def stop(self) -> None:
        """It and the connections it has: each is a process of its own below it."""
        if self._process is not None:
            self.drop_connections()
            self._process.terminate()
            self._process.wait()
            self._process = None

    def drop_connections(self) -> None:
        """As a network does, without a word: the server's processes for them die, what they started does not."""
        assert self._process is not None
        for pid in descendants({self._process.pid}):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if Path(f"/proc/{pid}/comm").read_text().startswith("sshd"):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def ssh_server() -> Iterator[SshServer]:
    if SSHD is None:
        pytest.skip("sshd is not installed (Debian: apt-get install openssh-server)")
    with tempfile.TemporaryDirectory(prefix="tw-ssh-") as folder:
        server = SshServer(Path(folder))
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()
