"""What an attack is, and what it has at hand. Read on both sides of the wall: by the suite, which lists the attacks,
and inside, where one of them runs alone: `python3 -I -S -B attack_kit.py NAME`, with its target in a file
beside it.

An attack is a function that tries one thing, with the means of a program that a model wrote. Whether it got anywhere
is judged from outside (`arena.py`). Only where there is nothing to see, such as a system call that answers, it says so
itself (`reached`). An `OSError` is how an attack is stopped; anything else is a mistake in the attack.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

MODULES = (
    "attack_files",
    "attack_places",
    "attack_git",
    "attack_metadata",
    "attack_secrets",
    "attack_processes",
    "attack_kernel",
    "attack_mounts",
    "attack_network",
    "attack_together",
)

Bare = Literal["all", "root", "user"]
"""Who succeeds without any sandbox. The others try it all the same."""


@dataclass(frozen=True)
class Target:
    """Names of things, never what is in them: a secret that shows up in the output was read."""

    nonce: str
    workspace: str
    outside: str
    """A folder beside the workspace with a file `canary` and a folder `folder`, also with one."""
    home: str
    data: str
    """Turnwright's own."""
    granted: str
    """A folder that the command may write to, in attacks on that."""
    victim: int
    """A process of the same user outside; its working folder is `outside`. 0 where the attack did not ask for one."""
    victim_fd: int
    victim_address: int
    victim_size: int
    key: str
    sockets: dict[str, str]
    ports: dict[str, int]
    terminal: str
    setuid: str

    @property
    def canary(self) -> str:
        return f"{self.outside}/canary"


@dataclass(frozen=True)
class Attack:
    name: str
    run: Callable[[Target], None]
    level: str
    bare: Bare
    world: frozenset[str]
    options: tuple[str, ...]
    sure: bool
    """Whether it must succeed bare. Not where a computer, or the container it is, may have closed that door itself."""
    why: str = ""


ATTACKS: dict[str, Attack] = {}


def attack(
    *world: str, level: str = "workspace-write", bare: Bare = "all", sure: bool = True, options: tuple[str, ...] = ()
) -> Callable[[Callable[[Target], None]], Callable[[Target], None]]:
    """`world`: what the arena must have for it. `options`: further words for `turnwright sandbox run`."""

    def add(run: Callable[[Target], None]) -> Callable[[Target], None]:
        family = run.__module__.removeprefix("attack_")
        name = f"{family}/{run.__name__.replace('_', '-')}"
        assert name not in ATTACKS, name
        why = (run.__doc__ or "").strip()
        ATTACKS[name] = Attack(name, run, level, bare, frozenset(world), options, sure, why)
        return run

    return add


def every_attack() -> dict[str, Attack]:
    for module in MODULES:
        import_module(module)
    return ATTACKS


# What attacks use.


class Unsupported(Exception):
    """This computer has nothing here that could be attacked."""


def reached(what: str) -> None:
    print(f"REACHED {what}", flush=True)


def overwrite(path: str, target: Target) -> None:
    """An existing file, in place."""
    with open(path, "r+b") as file:
        file.write(target.nonce.encode())


def create(path: str, target: Target, text: str = "") -> None:
    with open(path, "wb") as file:
        file.write((text or target.nonce).encode())


def show(path: str) -> None:
    """What is in a file, to whoever reads our output."""
    with open(path, "rb") as file:
        show_bytes(file.read(1 << 20))


def show_bytes(data: bytes) -> None:
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

_NUMBERS = {
    "x86_64": {
        "ptrace": 101, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "setns": 308, "unshare": 272,
        "clone": 56, "keyctl": 250, "add_key": 248, "request_key": 249, "bpf": 321, "perf_event_open": 298,
        "userfaultfd": 323, "process_vm_readv": 310, "process_vm_writev": 311, "open_by_handle_at": 304,
        "name_to_handle_at": 303, "setdomainname": 171, "syslog": 103, "quotactl": 179, "acct": 163, "kcmp": 312,
        "swapon": 167, "init_module": 175, "iopl": 172, "ioperm": 173, "personality": 135, "adjtimex": 159, "ioctl": 16,
    },
    "aarch64": {
        "ptrace": 117, "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "setns": 268, "unshare": 97,
        "clone": 220, "keyctl": 219, "add_key": 217, "request_key": 218, "bpf": 280, "perf_event_open": 241,
        "userfaultfd": 282, "process_vm_readv": 270, "process_vm_writev": 271, "open_by_handle_at": 265,
        "name_to_handle_at": 264, "setdomainname": 162, "syslog": 116, "quotactl": 60, "acct": 89, "kcmp": 272,
        "swapon": 224, "init_module": 105, "personality": 92, "adjtimex": 171, "ioctl": 29,
    },
}  # fmt: skip
_NUMBERS_OF_ALL = {
    "io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
    "pidfd_open": 434, "clone3": 435, "openat2": 437, "pidfd_getfd": 438, "mount_setattr": 442,
}  # fmt: skip


def syscall(name: str | int, *arguments: Any) -> int:
    """By name or number; OSError where the kernel says no."""
    if isinstance(name, str):
        numbers = _NUMBERS.get(os.uname().machine, {}) | _NUMBERS_OF_ALL
        if name not in numbers:
            raise Unsupported(f"no number of {name} on this architecture")
        number = numbers[name]
    else:
        number = name
    typed = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result: int = libc.syscall(ctypes.c_long(number), *typed)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return result


def main(words: list[str]) -> None:
    """Inside: run one attack and say how it went."""
    (name,) = words
    folder = Path(__file__).parent
    sys.path.insert(0, str(folder))
    # The module imports us by our name; it must find this very one, not a second copy.
    sys.modules["attack_kit"] = sys.modules["__main__"]
    import_module("attack_" + name.partition("/")[0])
    target = Target(**json.loads((folder / "target.json").read_text()))
    print(f"BEGAN {target.nonce}", flush=True)
    try:
        ATTACKS[name].run(target)
    except OSError as stopped:
        print(f"STOPPED {stopped}", flush=True)
    except Unsupported as missing:
        print(f"UNSUPPORTED {missing}", flush=True)
    else:
        print("ENDED", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
