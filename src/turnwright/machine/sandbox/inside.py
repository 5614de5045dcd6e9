"""The last step before a confined command, run as a script by itself: looks whether what was promised stands, gives up
every right that is left, and only then starts the command.

    warden ── bubblewrap ── pid 1 ── this ── command        (namespaces)
    warden ── this, which becomes the command               (kernel-lite)

Below namespaces it stays as the command's parent, because pid 1 there ends, and kills everything, when its child does:
so it waits until what the command left behind has ended, or until the warden ends it all.

What to do comes marshalled through a descriptor, so that no process shows it in its arguments or environment. Reports
go to the warden through another: `s` the command runs; `f` it could not be started: errno; `r` refused, the reason is
on stderr; `x` it ended: exit code, how many other processes still run.
"""

# pathlib would double the time this takes to start; typing, and the enums of signal, cost as much as the rest.
# ruff: noqa: PTH123, PTH208
from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # not `signal`, for the same reason
import ctypes
import marshal
import os
import select
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

REPORT = struct.Struct("<cii")
RESET = (
    _signal.SIGINT,
    _signal.SIGTERM,
    _signal.SIGHUP,
    _signal.SIGQUIT,
    _signal.SIGPIPE,
    _signal.SIGXFSZ,
)

_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_SECCOMP, _PR_SET_SECUREBITS = 4, 24, 22, 28
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
_SECCOMP_MODE_FILTER = 2
_SECURE_BITS = 0xEF  # no root powers on exec, no fix-up on setuid, no raising of ambient ones; locked
_CAPABILITY_VERSION, _CAPABILITY_LAST = 0x20080522, 63
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_PATH_BENEATH = 1
_LANDLOCK_OF_FILES = 0xC007
"""Execute, write, read, truncate, ioctl; the kernel refuses the others for a file."""
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41
_POLL_S = 0.02

libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """Something does not stand as it was promised. The command is not started."""


def main() -> NoReturn:
    plan_fd, report_fd = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(report_fd, False)
    with open(plan_fd, "rb") as file:
        plan = marshal.loads(file.read())
    try:
        _look(plan)
        _give_up_rights(plan)
    except (Refused, OSError) as why:
        os.write(2, f"{why}\n".encode(errors="replace"))
        os.write(report_fd, REPORT.pack(b"r", 0, 0))
        os._exit(126)
    if plan["stays"]:
        _stay(plan, report_fd)
    os.write(report_fd, REPORT.pack(b"s", os.getpid(), 0))
    os._exit(_become(plan, report_fd))


# What was promised


def _look(plan: dict[str, Any]) -> None:
    """Every path is the file that was meant when the command was planned, and every mount is there. Between planning
    and mounting, another command may have put a link in the place of a folder."""
    mounted = _mounts() if plan["mounts"] else {}
    for path, key, read_only in plan["mounts"]:
        if path not in mounted:
            raise Refused(f"{_shown(path)} was moved while it was being protected.")
        if read_only and b"ro" not in mounted[path]:
            raise Refused(f"{_shown(path)} is not read-only.")
        if key is not None:
            _same(path, key)
    if plan["cwd"] is not None:
        _same(b".", plan["cwd"])


def _same(path: bytes, key: tuple[int, int]) -> None:
    found = os.lstat(path)
    if (found.st_dev, found.st_ino) != tuple(key):
        raise Refused(f"{_shown(path)} was replaced while the command was being started.")


def _mounts() -> dict[bytes, list[bytes]]:
    """Mount points and their options. Where several lie over each other, the last one."""
    with open("/proc/self/mountinfo", "rb") as file:
        rows = [line.split(b" ", 6) for line in file]
    return {_unescaped(row[4]): row[5].split(b",") for row in rows}


def _unescaped(path: bytes) -> bytes:
    head, *rest = path.split(b"\\")
    return head + b"".join(bytes([int(part[:3], 8)]) + part[3:] for part in rest)


def _shown(path: bytes) -> str:
    return os.fsdecode(path).encode("ascii", "backslashreplace").decode()


# Rights


def _give_up_rights(plan: dict[str, Any]) -> None:
    if plan["own_network"]:
        _leave_network()
    if plan["network_fd"] is not None:
        _hand_out_listener(plan["network_fd"], plan["network_port"])
    _drop_capabilities()
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if plan["landlock"] is not None:
        _landlock(*plan["landlock"])
    if plan["filter"] is not None:
        _filter(plan["filter"])


def _leave_network() -> None:
    """A network of our own, in which there is nobody but us."""
    import _socket
    import fcntl

    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET):
        raise Refused(f"No network of its own is to be had: {os.strerror(ctypes.get_errno())}.")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    asked = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    fcntl.ioctl(asked.fileno(), _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP_RUNNING))
    asked.close()


def _hand_out_listener(channel_fd: int, port: int) -> None:
    """A door that stands in this network and is answered from outside of it: nothing that can open others stays."""
    import _socket

    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", port))
    listener.listen(64)
    channel = _socket.socket(fileno=channel_fd)
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", listener.fileno()))
    channel.sendmsg([b"n"], [rights])
    listener.close()
    channel.close()


def _drop_capabilities() -> None:
    """All of them, for good: a root without any is still the owner of root's files, and no more."""
    for number in range(_CAPABILITY_LAST + 1):
        libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # without CAP_SETPCAP there is nothing to drop
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    libc.prctl(_PR_SET_SECUREBITS, _SECURE_BITS, 0, 0, 0)
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    if libc.capset(header, struct.pack("6I", *(0,) * 6)):
        raise Refused(f"Capabilities cannot be given up: {os.strerror(ctypes.get_errno())}.")


def _landlock(attributes: bytes, rules: list[tuple[bytes, int]]) -> None:
    ruleset = _syscall(_LANDLOCK_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0)
    for path, rights in rules:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # what is not there needs no right
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _LANDLOCK_OF_FILES
        beneath = struct.pack("=Qi", rights, fd)
        _syscall(_LANDLOCK_ADD, ruleset, _LANDLOCK_PATH_BENEATH, beneath, 0)
        os.close(fd)
    _syscall(_LANDLOCK_RESTRICT, ruleset, 0)
    os.close(ruleset)


def _filter(program: bytes) -> None:
    code = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, described)


def _prctl(option: int, *arguments: int | bytes) -> None:
    padded = [*arguments, 0, 0, 0, 0][:4]
    if libc.prctl(option, *(ctypes.c_ulong(one) if isinstance(one, int) else one for one in padded)):
        raise OSError(ctypes.get_errno(), f"prctl {option}: {os.strerror(ctypes.get_errno())}")


def _syscall(number: int, *arguments: Any) -> int:
    result: int = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}: {os.strerror(ctypes.get_errno())}")
    return result


# The command


def _stay(plan: dict[str, Any], report_fd: int) -> NoReturn:
    # Nobody of ours may look into this process: it alone holds the way to the warden.
    _prctl(_PR_SET_DUMPABLE, 0)
    failed_r, failed_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(failed_r)
        os._exit(_become(plan, failed_w))
    os.close(failed_w)
    failed = os.read(failed_r, REPORT.size)
    os.close(failed_r)
    if failed:
        os.write(report_fd, failed)
        os._exit(127)
    os.write(report_fd, REPORT.pack(b"s", pid, 0))
    # The outputs are the command's alone, or their readers would wait for us.
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    code = _ended(pid)
    others = _others()
    os.write(report_fd, REPORT.pack(b"x", code, len(others)))
    while others:
        select.select([], [], [], _POLL_S)
        others = _others()
    os._exit(code if code >= 0 else 128 - code)


def _become(plan: dict[str, Any], failed_fd: int) -> int:
    """The command. Returns only where that is not to be had. `failed_fd` closes by itself on exec, all others here."""
    if not plan["talks"]:
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
    os.closerange(3, failed_fd)
    os.closerange(failed_fd + 1, 1 << 20)
    for number in RESET:
        _signal.signal(number, _signal.SIG_DFL)
    env = dict(pair.split(b"=", 1) for pair in plan["env"])
    try:
        os.execvpe(plan["argv"][0], plan["argv"], env)
    except OSError as failed:
        os.write(failed_fd, REPORT.pack(b"f", failed.errno or 1, 0))
    return 127


def _ended(pid: int) -> int:
    while True:
        found, status = os.waitpid(pid, 0)
        if found == pid:
            return os.waitstatus_to_exitcode(status)


def _others() -> list[str]:
    """Living processes of this namespace that are neither its first one nor us."""
    ours = ("1", str(os.getpid()))
    return [name for name in os.listdir("/proc") if name.isdigit() and name not in ours and not _is_zombie(name)]


def _is_zombie(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb", 0) as file:
            return file.read(1024).rpartition(b")")[2].split(None, 1)[0] in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return True


if __name__ == "__main__":
    main()
