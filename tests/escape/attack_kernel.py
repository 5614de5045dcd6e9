"""The kernel's own doors: settings, mounts, namespaces, other ways to call it, and parts that were often broken."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import socket
import struct

from attack_kit import Target, Unsupported, attack, reached, syscall

CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWPID = 0x10000000, 0x20000, 0x40000000, 0x20000000
MS_RDONLY, MS_REMOUNT, MS_BIND = 1, 32, 4096
TIOCSTI, TIOCSCTTY = 0x5412, 0x540E
SYSCTL = "/proc/sys/kernel/printk_ratelimit_burst"
"""Harmless, and put back by the suite."""


@attack(bare="root", sure=False)
def magic_key(_target: Target) -> None:
    """`h` prints a help text; the other letters reboot."""
    with open("/proc/sysrq-trigger", "w") as file:
        file.write("h")
    reached("sysrq")


@attack(bare="root")
def new_program_format(_target: Target) -> None:
    """Whoever may register one is run by root for files of that form."""
    path = "/proc/sys/fs/binfmt_misc/register"
    if not os.path.exists(path):
        raise Unsupported("binfmt_misc is not mounted")
    os.close(os.open(path, os.O_WRONLY))
    reached(path)


@attack("terminal")
def typed_into_the_terminal(target: Target) -> None:
    """A command that types for the user, in the terminal from which Turnwright was started."""
    fd = _terminal(target)
    for byte in target.nonce.encode() + b"\n":
        fcntl.ioctl(fd, TIOCSTI, bytes([byte]))


def _terminal(target: Target) -> int:
    """Opened, and made ours if that is to be had: then no right is needed to type into it."""
    if os.fork():
        os.wait()
        os._exit(0)
    os.setsid()
    fd = os.open(target.terminal, os.O_RDWR)
    try:
        fcntl.ioctl(fd, TIOCSCTTY, 0)
    except OSError:
        pass
    return fd


@attack("terminal")
def typed_with_a_longer_number(target: Target) -> None:
    """The kernel looks at 32 bits of the request, a filter may have looked at 64."""
    fd = _terminal(target)
    for byte in target.nonce.encode() + b"\n":
        syscall(
            16 if os.uname().machine == "x86_64" else 29, fd, (1 << 32) | TIOCSTI, ctypes.byref(ctypes.c_char(byte))
        )


@attack("controlling-terminal")
def typed_into_our_own_terminal(target: Target) -> None:
    fd = os.open("/dev/tty", os.O_RDWR)
    for byte in target.nonce.encode() + b"\n":
        fcntl.ioctl(fd, TIOCSTI, bytes([byte]))


@attack()
def calls_of_another_architecture(_target: Target) -> None:
    """32-bit calls have other numbers: a filter that does not ask which kind a call is, reads them wrongly."""
    reached(f"int 0x80, pid {_int80(20)}")


@attack()
def namespace_by_another_architecture(_target: Target) -> None:
    if _int80(310, CLONE_NEWUSER) != 0:
        raise PermissionError("unshare by int 0x80")
    reached("a user namespace by int 0x80")


def _int80(number: int, argument: int = 0) -> int:
    if os.uname().machine != "x86_64":
        raise Unsupported("no second architecture is known here")
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    # push rbx; mov eax, edi; mov ebx, esi; int 0x80; pop rbx; ret
    code.write(b"\x53\x89\xf8\x89\xf3\xcd\x80\x5b\xc3")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)(
            ctypes.addressof(ctypes.c_char.from_buffer(code))
        )
        os.write(writer, struct.pack("i", function(number, argument)))
        os._exit(0)
    os.close(writer)
    answer = os.read(reader, 4)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) == 11:
            raise Unsupported("this kernel has no 32-bit calls")
        raise PermissionError(f"ended by signal {os.WTERMSIG(status)}")
    result: int = struct.unpack("i", answer)[0]
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


@attack()
def calls_with_the_x32_bit(_target: Target) -> None:
    """The same calls once more, with another number. Nearly no kernel has them; then nothing is to be attacked."""
    if os.uname().machine != "x86_64":
        raise Unsupported("only x86_64 has it")
    try:
        reached(f"x32, pid {syscall(0x40000000 | 39)}")
    except OSError as absent:
        if absent.errno == 38:
            raise Unsupported("this kernel has no x32") from absent
        raise


@attack(bare="root")
def program_in_the_kernel(_target: Target) -> None:
    """A map; programs come next."""
    attributes = struct.pack("5I", 2, 4, 4, 1, 0) + bytes(100)
    reached(f"bpf map {syscall('bpf', 0, attributes, 72)}")


@attack()
def keys_of_the_kernel(target: Target) -> None:
    reached(f"key {syscall('add_key', b'user', target.nonce.encode(), b'x', 1, -2)}")


@attack()
def request_of_a_key(_target: Target) -> None:
    """Makes the kernel start a program of root's."""
    try:
        syscall("request_key", b"user", b"turnwright-none", b"", 0)
    except OSError as answered:
        if answered.errno not in (126, 2):  # ENOKEY: it was looked for
            raise
    reached("request_key")


@attack()
def ring_of_calls(_target: Target) -> None:
    """io_uring: calls that no filter sees."""
    reached(f"io_uring {syscall('io_uring_setup', 4, ctypes.create_string_buffer(120))}")


@attack(bare="root")
def counters(_target: Target) -> None:
    attributes = struct.pack("IIQ", 1, 120, 0) + bytes(104)
    reached(f"perf {syscall('perf_event_open', attributes, -1, 0, -1, 0)}")


@attack(bare="root")
def faults_in_user_space(_target: Target) -> None:
    reached(f"userfaultfd {syscall('userfaultfd', 0)}")


@attack()
def trace_of_a_child(_target: Target) -> None:
    """Its own child: harmless by itself, and the way to change system calls behind a filter's back."""
    pid = os.fork()
    if pid == 0:
        import time

        time.sleep(5)
        os._exit(0)
    try:
        syscall("ptrace", 16, pid, 0, 0)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    reached("ptrace")


@attack("domain-name", bare="root")
def name_of_the_computer(target: Target) -> None:
    name = target.nonce[:20].encode()
    syscall("setdomainname", name, len(name))


@attack(bare="root", sure=False)
def ports_of_the_hardware(_target: Target) -> None:
    if os.uname().machine != "x86_64":
        raise Unsupported("only x86 has them")
    syscall("ioperm", 0x80, 1, 1)
    reached("ioperm")


@attack(bare="root")
def memory_of_the_computer(_target: Target) -> None:
    for path in ("/dev/mem", "/proc/kcore", "/dev/port"):
        if os.path.exists(path):
            os.close(os.open(path, os.O_RDONLY))
            return reached(path)
    raise Unsupported("this kernel has neither")


@attack(bare="root", sure=False)
def module_of_the_kernel(_target: Target) -> None:
    """An empty one: the kernel refuses it only after it has asked who we are."""
    try:
        syscall("init_module", b"", 0, b"")
    except OSError as answered:
        if answered.errno not in (8, 22):  # ENOEXEC: it looked at it
            raise
    reached("init_module")


def _has_capabilities() -> bool:
    with open("/proc/self/status") as file:
        return any(row.startswith("CapEff:") and int(row.split()[1], 16) for row in file)


@attack(bare="root")
def capabilities_left(_target: Target) -> None:
    """Any right of root's at all: in a namespace of one's own they are worth nothing, and still none is needed."""
    if not _has_capabilities():
        raise PermissionError("none")
    with open("/proc/self/uid_map") as file:
        reached(f"capabilities, in {' '.join(file.read().split())}")


@attack()
def rights_gained_by_a_program(_target: Target) -> None:
    """Whether a program that lends rights (setuid) would lend them here."""
    with open("/proc/self/status") as file:
        if "NoNewPrivs:\t1" in file.read():
            raise PermissionError("no_new_privs is set")
    reached("no_new_privs is not set")


@attack()
def strange_sockets(_target: Target) -> None:
    """Families that few need and that were often broken."""
    stopped: OSError | None = None
    for family, kind in ((40, 1), (38, 5), (29, 3), (31, 3), (44, 3), (30, 1)):
        try:
            socket.socket(family, kind).close()
        except OSError as failed:
            stopped = failed
            continue
        return reached(f"a socket of family {family}")
    raise stopped or Unsupported("none")
