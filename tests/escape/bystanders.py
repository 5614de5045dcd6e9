"""Who and what is near an attack and must not notice it: a process, servers, a terminal, the kernel's settings."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import os
import pty
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from present import Place, Present
from servers import servers

_NEW_NETWORK, _NEW_MOUNTS, _REC, _PRIVATE, _DETACH = 0x40000000, 0x20000, 0x4000, 1 << 18, 2
_SET_FLAGS, _SET_ADDRESS = 0x8914, 0x8916
_SYSCTL = Path("/proc/sys/kernel/printk_ratelimit_burst")
_SYSFS = Path("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs")
_DOMAIN = Path("/proc/sys/kernel/domainname")
_THE_ONLY_KERNEL = threading.RLock()
_SYSTEM_FOLDERS = ("/etc", "/tmp", "/var/tmp", "/dev/shm", "/run")

VICTIM = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
libc.prctl(0x59616d61, -1, 0, 0, 0)                     # Yama: whoever asks may look
word, path, key = sys.stdin.readline().split()
buffer = ctypes.create_string_buffer(word.encode())
fd = os.open(path, os.O_RDWR)
if key != "-":
    number = libc.syscall(ctypes.c_long({add_key}), b"user", key.encode(), word.encode(), len(word), ctypes.c_long(-4))
    libc.syscall(ctypes.c_long({keyctl}), 5, number, 0x3f3f0000)
print(ctypes.addressof(buffer), fd, flush=True)
for line in sys.stdin:
    print(buffer.raw.hex(), flush=True)
if key != "-":
    libc.syscall(ctypes.c_long({keyctl}), 9, number, ctypes.c_long(-4))
"""


@contextlib.contextmanager
def around(place: Place, world: frozenset[str]) -> Iterator[Present]:
    present = Present()
    with contextlib.ExitStack() as stack:
        if world & {"victim", "key"}:
            stack.enter_context(_victim(place, world, present))
        if world & {"servers", "daemons", "metadata", "answers", "hosts"}:
            stack.enter_context(servers(place, world, present))
        if world & {"terminal", "controlling-terminal"}:
            stack.enter_context(_terminal(place, world, present))
        if "stdin" in world:
            stack.enter_context(_descriptors(place, present))
        for name, path in (("sysctl", _SYSCTL), ("sysfs", _SYSFS), ("domain-name", _DOMAIN)):
            if name in world:
                stack.enter_context(_setting(path, present))
        if "system" in world:
            stack.enter_context(_system_folders(place, present))
        if "cgroup" in world:
            stack.enter_context(_control_group(place, present))
        if "kernel-log" in world and os.geteuid() == 0:
            Path("/dev/kmsg").write_text(f"turnwright test: {place.secret('kernel log')}\n")
        yield present


def _as(user: int | None) -> dict[str, Any]:
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


@contextlib.contextmanager
def _victim(place: Place, world: frozenset[str], present: Present) -> Iterator[None]:
    numbers = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
    program = VICTIM.format(add_key=numbers[0], keyctl=numbers[1])
    held = place.root / "held"
    held.write_text(f"{place.secret('held file')}\n")
    if place.user is not None:
        os.chown(held, place.user, place.user)
    word = place.secret("memory")
    key = f"key-{place.nonce}" if "key" in world else ""
    process = subprocess.Popen(
        [place_python(place.user), "-I", "-S", "-c", program],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=place.outside, text=True, start_new_session=True,
        env={"ESCAPE_WORD": place.secret("environment of the host")}, **_as(place.user),
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    try:
        print(word, held, key or "-", file=process.stdin, flush=True)
        present.victim_address, present.victim_fd = map(int, process.stdout.readline().split())
        present.victim, present.victim_size, present.key = process.pid, len(word), key
        limits = Path(f"/proc/{process.pid}/limits").read_text()
        likely = Path(f"/proc/{process.pid}/oom_score_adj").read_text()
        content = held.read_bytes()

        def unharmed() -> str:
            if process.poll() is not None:
                return "the process outside was killed"
            assert process.stdin is not None and process.stdout is not None
            if _state(process.pid) in "Tt":
                return "the process outside was stopped"
            if os.getpriority(os.PRIO_PROCESS, process.pid) != os.getpriority(os.PRIO_PROCESS, 0):
                return "the process outside was slowed"
            if Path(f"/proc/{process.pid}/limits").read_text() != limits:
                return "the process outside was limited"
            if Path(f"/proc/{process.pid}/oom_score_adj").read_text() != likely:
                return "the process outside was made a likelier victim"
            print("?", file=process.stdin, flush=True)
            if bytes.fromhex(process.stdout.readline())[:-1] != word.encode():
                return "the process outside was written to"
            if held.read_bytes() != content:
                return "the file of the process outside was written to"
            return ""

        present.questions.append(unharmed)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@functools.cache
def place_python(user: int | None) -> str:
    """An interpreter that this user may run: ours may lie where only we may go."""
    if user is None:
        return sys.executable
    for path in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(PermissionError, FileNotFoundError):
            subprocess.run([path, "-I", "-S", "-c", ""], capture_output=True, check=True, cwd="/", **_as(user))
            return path
    raise FileNotFoundError("There is no Python that another user may run.")


@contextlib.contextmanager
def _terminal(place: Place, world: frozenset[str], present: Present) -> Iterator[None]:
    master, slave = pty.openpty()
    present.terminal = os.ttyname(slave)
    if place.user is not None:
        os.chown(present.terminal, place.user, place.user)
    if "controlling-terminal" in world:
        present.controlling = slave
    os.set_blocking(slave, False)

    def typed() -> str:
        with contextlib.suppress(BlockingIOError):
            if place.nonce.encode() in os.read(slave, 1000):
                return "typed into the terminal"
        return ""

    present.questions.append(typed)
    try:
        yield
    finally:
        os.close(master)
        os.close(slave)


@contextlib.contextmanager
def _descriptors(place: Place, present: Present) -> Iterator[None]:
    present.stdin = os.open(place.outside / "canary", os.O_RDWR)
    key = os.open(place.home / ".ssh" / "id_ed25519", os.O_RDONLY)
    folder = os.open(place.home / ".ssh", os.O_RDONLY)
    present.handed_down = (key, folder)
    try:
        yield
    finally:
        for fd in (present.stdin, key, folder):
            os.close(fd)


@contextlib.contextmanager
def _setting(path: Path, present: Present) -> Iterator[None]:
    """One attempt at a time: there is only one of it on the whole computer."""
    if not path.exists():
        yield
        return
    with _THE_ONLY_KERNEL:
        before = path.read_text()

        def changed() -> str:
            now = path.read_text()
            return f"{path} is now {now.strip()}" if now != before else ""

        present.questions.append(changed)
        try:
            yield
        finally:
            if path.read_text() != before:
                path.write_text(before)


@contextlib.contextmanager
def _system_folders(place: Place, present: Present) -> Iterator[None]:
    def new() -> list[Path]:
        paths = (Path(folder, f"turnwright-{place.nonce}") for folder in _SYSTEM_FOLDERS)
        return [path for path in paths if path.exists()]

    present.questions.append(lambda: f"new: {new()[0]}" if new() else "")
    try:
        yield
    finally:
        for path in new():
            path.unlink()


@contextlib.contextmanager
def _control_group(place: Place, present: Present) -> Iterator[None]:
    def made() -> list[Path]:
        paths = [Path(root, place.nonce) for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")]
        return [path for path in paths if path.exists()]

    present.questions.append(lambda: f"new: {made()[0]}" if made() else "")
    try:
        yield
    finally:
        for path in made():
            path.rmdir()


def plant_setuid(place: Place, present: Present) -> None:
    """Root's, in the arena of another user. After the arena was given away, which takes such bits off."""
    program = Path(present.setuid)
    shutil.copy("/bin/cat", program)
    program.chmod(0o4755)
    secret = Path(f"{present.setuid}.secret")
    secret.write_text(place.secret("file of root"))
    secret.chmod(0o600)


def survivors(nonce: str) -> list[int]:
    """Processes that carry the nonce in their arguments."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if nonce.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(int(name))
    return found


def still_beating(workspace: Path) -> bool:
    """Whether something goes on writing signs of life."""

    def beats() -> dict[str, str]:
        return {path.name: path.read_text() for path in workspace.glob("alive-*")}

    first = beats()
    if not first:
        return False
    time.sleep(0.6)
    return beats() != first


def own_world() -> bool:
    """Give this process a network of its own, in which the metadata address is ours too, and mounts of its own, so
    that an attack which succeeds mounts nothing on this computer. Root alone can."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 or libc.unshare(_NEW_NETWORK | _NEW_MOUNTS):
        return False
    if libc.mount(b"none", b"/", None, _REC | _PRIVATE, None):
        raise OSError(ctypes.get_errno(), "the mounts could not be made our own")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        fcntl.ioctl(asked, _SET_FLAGS, struct.pack("16sH14x", b"lo", 0x41))
        address = socket.inet_aton("169.254.169.254")
        fcntl.ioctl(asked, _SET_ADDRESS, struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, address))
    return True


def unmount_below(folder: Path) -> list[str]:
    """What an attack mounted in the arena; nothing else is ever mounted there."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    found = [place for row in mounts if (place := row.split()[4]).startswith(f"{folder}/")]
    libc = ctypes.CDLL(None, use_errno=True)
    for place in reversed(found):
        libc.umount2(place.encode(), _DETACH)
    return found
