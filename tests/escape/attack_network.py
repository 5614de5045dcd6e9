"""Speaking to somebody: servers on this computer, the cloud's metadata, daemons behind sockets of the file system.

Who was spoken to says so; what answers from inside is asked from outside.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess

from attack_kit import Target, Unsupported, attack, reached

MSG_FASTOPEN = 0x20000000
IPPROTO_MPTCP = 262


def speak(target: Target, address: tuple[str, int], family: int = socket.AF_INET, protocol: int = 0) -> None:
    try:
        made = socket.socket(family, socket.SOCK_STREAM, protocol)
    except OSError as missing:
        if missing.errno in (93, 94):  # EPROTONOSUPPORT, ESOCKTNOSUPPORT
            raise Unsupported("this kernel does not have the protocol") from missing
        raise
    with made:
        made.settimeout(3)
        made.connect(address)
        made.sendall(target.nonce.encode())


@attack("servers")
def server_of_this_computer(target: Target) -> None:
    speak(target, ("127.0.0.1", target.ports["tcp"]))


@attack("servers")
def server_by_other_names(target: Target) -> None:
    """0.0.0.0, and the rest of 127/8, lead to the same place."""
    stopped: OSError | None = None
    for address in ("0.0.0.0", "127.1.2.3", "localhost"):
        try:
            return speak(target, (address, target.ports["tcp"]))
        except OSError as failed:
            stopped = failed
    raise stopped or PermissionError("none")


@attack("servers")
def server_by_the_newer_protocol(target: Target) -> None:
    if "tcp6" not in target.ports:
        raise Unsupported("no IPv6 here")
    speak(target, ("::1", target.ports["tcp6"]), socket.AF_INET6)


@attack("servers")
def server_by_mapped_address(target: Target) -> None:
    try:
        speak(target, ("::ffff:127.0.0.1", target.ports["tcp"]), socket.AF_INET6)
    except OSError as missing:
        if missing.errno == 97 and "tcp6" not in target.ports:
            raise Unsupported("no IPv6 here") from missing
        raise


@attack("servers")
def server_by_many_paths(target: Target) -> None:
    """MPTCP is TCP to a server, and another protocol to a filter."""
    speak(target, ("127.0.0.1", target.ports["tcp"]), protocol=IPPROTO_MPTCP)


@attack("servers")
def server_without_connecting(target: Target) -> None:
    """Data in the first packet: no call of `connect` is seen."""
    with socket.socket() as made:
        made.settimeout(3)
        made.sendto(target.nonce.encode(), MSG_FASTOPEN, ("127.0.0.1", target.ports["tcp"]))


@attack("metadata", bare="root")
def metadata_of_the_cloud(target: Target) -> None:
    speak(target, ("169.254.169.254", 80))


@attack("servers")
def datagram(target: Target) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.sendto(target.nonce.encode(), ("127.0.0.1", target.ports["udp"]))


@attack("servers")
def secret_in_a_name(target: Target) -> None:
    """A lookup carries what is in the name. The question, as it is sent to a resolver."""
    question = struct.pack(">6H", 1, 256, 1, 0, 0, 0) + bytes([len(target.nonce)]) + target.nonce.encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.connect(("127.0.0.1", target.ports["udp"]))
        made.send(question + b"\4test\0\0\1\0\1")


@attack(bare="root")
def raw_packets(_target: Target) -> None:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    reached("a raw socket")


@attack(bare="root")
def packets_of_the_wire(_target: Target) -> None:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    reached("a packet socket")


@attack("answers")
def server_inside(target: Target) -> None:
    """A door for others: it listens, and waits to be asked from outside."""
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", target.ports["answer"]))
        made.listen(1)
        made.settimeout(2)
        there, _ = made.accept()
        there.sendall(target.nonce.encode())
        there.close()


def _daemon(name: str, target: Target) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.settimeout(3)
        made.connect(target.sockets[name])
        made.sendall(target.nonce.encode())


@attack("daemons")
def daemon_of_containers(target: Target) -> None:
    _daemon("docker", target)


@attack("daemons")
def daemon_of_the_desktop(target: Target) -> None:
    _daemon("bus", target)


@attack("daemons")
def daemon_of_ssh_keys(target: Target) -> None:
    _daemon("agent", target)


@attack("daemons")
def daemon_in_the_workspace(target: Target) -> None:
    """Build tools leave such ones; what listens there may be outside."""
    _daemon("workspace", target)


@attack("daemons")
def daemon_without_a_file(target: Target) -> None:
    """Abstract sockets belong to the network, not to the file system: the display has one."""
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(f"\0{target.sockets['abstract']}")
        made.sendall(target.nonce.encode())


@attack("daemons")
def daemon_by_datagram(target: Target) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.sendto(target.nonce.encode(), target.sockets["log"])


@attack("daemons")
def daemon_through_the_shell(target: Target) -> None:
    """Nothing but what a shell has."""
    done = subprocess.run(
        ["bash", "-c", f"echo {target.nonce} > /dev/tcp/127.0.0.1/{target.ports['tcp']}"],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise PermissionError(done.stderr.decode())


@attack("hosts", options=("--net-hosts", "allowed.test"))
def past_the_proxy(target: Target) -> None:
    """Where the network is a list of hosts: straight on, without asking the proxy."""
    speak(target, ("127.0.0.1", target.ports["tcp"]))


@attack("hosts", options=("--net-hosts", "allowed.test"))
def by_the_proxy_to_an_address(target: Target) -> None:
    _ask_the_proxy(target, f"127.0.0.1:{target.ports['tcp']}")


@attack("hosts", "metadata", bare="root", options=("--net-hosts", "allowed.test"))
def by_the_proxy_to_metadata(target: Target) -> None:
    _ask_the_proxy(target, "169.254.169.254:80")


@attack("hosts", sure=False, options=("--net-hosts", "localhost,allowed.test"))
def by_the_proxy_to_an_allowed_name_of_this_computer(target: Target) -> None:
    """The user allowed a name; where it leads is somebody else's word."""
    _ask_the_proxy(target, "localhost:80")


def _ask_the_proxy(target: Target, authority: str) -> None:
    """Where there is none, straight there: that is what a client does without a proxy."""
    proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy") or ""
    address = proxy.rpartition("/")[2] or authority
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 3) as made:
        if proxy:
            made.sendall(f"CONNECT {authority} HTTP/1.1\r\n\r\n".encode())
            answer = made.recv(4096)
            if b" 200 " not in answer.partition(b"\r\n")[0]:
                raise PermissionError(answer.partition(b"\r\n\r\n")[2].decode())
        made.sendall(target.nonce.encode())
