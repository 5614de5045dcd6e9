"""A real PostgreSQL server of the tests' own. Debian keeps its programs off PATH; where there are none, tests that need
one say that they skip."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

USER = "turnwright"


def programs() -> Path | None:
    """Where initdb and pg_ctl are."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if not places and (found := shutil.which("pg_ctl")):
        places = [Path(found).resolve()]
    return places[-1].parent if places else None


class PostgresServer:
    """Runs as `postgres` where the tests run as root: the server refuses root."""

    def __init__(self, folder: Path, bin_folder: Path) -> None:
        self.folder = folder
        self._bin = bin_folder
        self._user = "postgres" if os.getuid() == 0 else None
        self._numbers = count(1)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    def make(self) -> None:
        if self._user is not None:
            shutil.chown(self.folder, self._user, self._user)
        self._run("initdb", "-D", str(self.folder / "data"), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync")

    def start(self) -> None:
        options = (
            f"-c listen_addresses=127.0.0.1 -c port={self.port} -c fsync=off -c unix_socket_directories={self.folder} "
            "-c shared_buffers=16MB -c max_connections=60 -c log_min_messages=fatal"
        )
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-t", "60", "-l", log, "-o", options, "start")

    def stop(self, how: str = "immediate") -> None:
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-m", how, "stop")

    def database(self) -> str:
        """The URL of a new, empty one."""
        name = f"journal_{next(self._numbers)}"
        self.sql("postgres", f"CREATE DATABASE {name}")
        return self.url(name)

    def url(self, name: str) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{name}"

    def sql(self, database: str, statement: str) -> str:
        command = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-qAtc", statement, database]
        return self._run(*command)

    def _run(self, program: str, *arguments: str) -> str:
        command: Sequence[str] = [str(self._bin / program), *arguments]
        done = subprocess.run(
            command, cwd=self.folder, user=self._user, capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    bin_folder = programs()
    if bin_folder is None:
        pytest.skip("there is no PostgreSQL server on this machine (Debian: apt-get install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="turnwright-postgres-"))
    try:
        server = PostgresServer(folder, bin_folder)
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
