"""What must not be possible in a sandbox, tried in it: run as a script by `means.py`. Prints what was possible."""

# What it imports decides how long each start waits for it.
# ruff: noqa: PTH123, T201
from __future__ import annotations

import _socket
import ctypes
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

libc = ctypes.CDLL(None, use_errno=True)

_CLONE_NEWUSER = 0x10000000
_PTRACE_TRACEME = 0
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_KEYCTL_GET_PROCESS_KEYRING, _PROCESS_KEYRING = 0, -2
_AF_UNIX = 1
_CONNECT_S = 2.0


def main() -> None:
    base, port = sys.argv[1], int(sys.argv[2])
    trials: dict[str, Callable[[], object]] = {
        "work": lambda: write("made"),
        "write": lambda: write(f"{base}/canary"),
        "read": lambda: os.close(os.open(f"{base}/hidden/secret", os.O_RDONLY)),
        "sysctl": lambda: os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)),
        "network": lambda: connect(port),
        "unix": lambda: _socket.socket(_AF_UNIX, _socket.SOCK_STREAM),
        "capabilities": capabilities,
        "keys": lambda: called(_KEYCTL[os.uname().machine], _KEYCTL_GET_PROCESS_KEYRING, _PROCESS_KEYRING, 1),
        "ptrace": lambda: checked(libc.ptrace(_PTRACE_TRACEME, 0, 0, 0)),
        "namespaces": lambda: checked(libc.unshare(_CLONE_NEWUSER)),
    }
    done = []
    for name, trial in trials.items():
        try:
            trial()
        except (OSError, AttributeError, KeyError):  # not every system has everything that is tried
            continue
        done.append(name)
    print("[" + ", ".join(f'"{name}"' for name in done) + "]")


def write(path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write("it was here")


def connect(port: int) -> None:
    made = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    made.settimeout(_CONNECT_S)
    made.connect(("127.0.0.1", port))


def capabilities() -> None:
    with open("/proc/self/status", encoding="ascii") as file:
        held = next(line.split()[1] for line in file if line.startswith("CapEff:"))
    if int(held, 16) == 0:
        raise PermissionError


def called(number: int, *arguments: int) -> None:
    checked(libc.syscall(ctypes.c_long(number), *arguments))


def checked(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")


if __name__ == "__main__":
    main()
