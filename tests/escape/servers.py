"""Servers and daemons that hear whoever speaks to them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from present import Place, Present


@contextlib.contextmanager
def servers(place: Place, world: frozenset[str], present: Present) -> Iterator[None]:
    heard: list[str] = []
    sockets: list[socket.socket] = []
    files = {"docker": "run/docker.sock", "bus": "run/bus", "agent": "run/agent.sock", "log": "run/log"}
    present.sockets = {name: str(place.root / path) for name, path in files.items()}
    present.sockets["workspace"] = str(place.workspace / "build.sock")
    present.sockets["abstract"] = f"turnwright-{place.nonce}"

    def listen(name: str, family: int, address: Any, kind: int = socket.SOCK_STREAM) -> None:
        made = socket.socket(family, kind)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.settimeout(0.2)
        sockets.append(made)
        if kind == socket.SOCK_STREAM:
            made.listen(8)
        if isinstance(address, str) and address.startswith("/"):
            Path(address).chmod(0o777)
        threading.Thread(target=_hear, args=(made, name, kind, heard), daemon=True).start()
        if isinstance(address, tuple):
            present.ports[name] = made.getsockname()[1]

    for name in (*files, "workspace"):
        kind = socket.SOCK_DGRAM if name == "log" else socket.SOCK_STREAM
        listen(name, socket.AF_UNIX, present.sockets[name], kind)
    listen("abstract", socket.AF_UNIX, f"\0{present.sockets['abstract']}")
    listen("tcp", socket.AF_INET, ("0.0.0.0", 0))
    listen("udp", socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_DGRAM)
    with contextlib.suppress(OSError):
        listen("tcp6", socket.AF_INET6, ("::1", 0))
    if "metadata" in world:
        with contextlib.suppress(OSError):  # an address that only a network of the suite's own has
            listen("metadata", socket.AF_INET, ("169.254.169.254", 80))
    stop = threading.Event()
    if "answers" in world:
        present.ports["answer"] = _free_port()
        asking = threading.Thread(target=_ask, args=(present.ports["answer"], place.nonce, heard, stop), daemon=True)
        asking.start()
    present.questions.append(lambda: f"heard at {', '.join(dict.fromkeys(heard))}" if heard else "")
    try:
        yield
    finally:
        stop.set()
        for each in sockets:
            each.close()


def _hear(server: socket.socket, name: str, kind: int, heard: list[str]) -> None:
    while True:
        try:
            if kind == socket.SOCK_DGRAM:
                server.recv(4096)
            else:
                server.accept()[0].close()
        except TimeoutError:
            continue
        except OSError:
            return
        heard.append(name)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as made:
        port: int = made.getsockname()[1]
        return port


def _ask(port: int, nonce: str, heard: list[str], stop: threading.Event) -> None:
    while not stop.wait(0.05):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as made:
            if nonce.encode() in made.recv(100):
                heard.append("a server inside, from outside")
