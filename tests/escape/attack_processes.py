"""Outliving the command, and reaching processes outside. What lives on afterwards is seen from outside by its name."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
import time
from contextlib import suppress

from attack_kit import Target, attack, libc, syscall

PR_SET_CHILD_SUBREAPER = 36
BOMB = 40


def linger(target: Target, *, hold_output: bool = False) -> None:
    """Becomes a process that carries the nonce in its arguments, and writes a sign of life for as long as it lives."""
    if not hold_output:
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
    program = (
        "import signal, sys, time\n"
        "for number in (1, 2, 3, 13, 15): signal.signal(number, signal.SIG_IGN)\n"
        "for _ in range(300):\n"
        "    open(sys.argv[1], 'w').write(str(time.time())); time.sleep(0.1)\n"
    )
    path = f"{target.workspace}/alive-{os.getpid()}"
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", program, path, target.nonce])


@attack()
def left_in_the_background(target: Target) -> None:
    if os.fork() == 0:
        linger(target)


@attack()
def double_fork(target: Target) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            linger(target)
        os._exit(0)
    os.wait()


@attack()
def silent_holder_of_the_output(target: Target) -> None:
    """It says nothing, and does not let the pipe end either."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            linger(target, hold_output=True)
        os._exit(0)
    os.wait()


@attack()
def own_subreaper(target: Target) -> None:
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.fork() == 0:
        os.setsid()
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if os.fork() == 0:
            os.setsid()
            linger(target)
        time.sleep(60)


@attack()
def watch_killed(target: Target) -> None:
    """First the processes above us, as far as we can, then the rest of our life in peace."""
    if os.fork() == 0:
        os.setsid()
        parents = _ancestors(os.getppid())
        for pid in parents:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        linger(target)
    time.sleep(0.3)


def _ancestors(pid: int) -> list[int]:
    """Ours that belong to the watch: those that this suite did not start itself are spared."""
    found: list[int] = []
    while pid > 0 and len(found) < 6:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                name, _, rest = file.read().partition(b"(")[2].rpartition(b")")
        except OSError:
            break
        with suppress(OSError):
            name += open(f"/proc/{pid}/cmdline", "rb").read()  # noqa: SIM115
        if not name.startswith((b"turnwright-", b"bwrap")) and b"sandbox/inside.py" not in name:
            break
        found.append(pid)
        pid = int(rest.split()[1])
    return found


@attack()
def forks_faster_than_it_is_killed(target: Target) -> None:
    """A bomb with a limit of our own, whose pieces start anew when they see one of them die."""
    for _ in range(BOMB):
        try:
            if os.fork() == 0:
                os.setsid()
                while True:
                    if os.fork():
                        time.sleep(0.05)
                        os._exit(0)
                    if not os.path.exists(f"{target.workspace}/README.md"):
                        os._exit(0)
                    with open(f"{target.workspace}/alive-bomb", "w") as file:
                        file.write(str(time.time()))
        except OSError:
            break


@attack("victim")
def process_outside_killed(target: Target) -> None:
    os.kill(target.victim, signal.SIGKILL)


@attack("victim")
def process_outside_stopped(target: Target) -> None:
    os.kill(target.victim, signal.SIGSTOP)


@attack("victim")
def process_outside_killed_by_descriptor(target: Target) -> None:
    signal.pidfd_send_signal(syscall("pidfd_open", target.victim, 0), signal.SIGKILL)


@attack("victim")
def group_outside_killed(target: Target) -> None:
    os.killpg(target.victim, signal.SIGKILL)


@attack("victim")
def process_outside_slowed(target: Target) -> None:
    os.setpriority(os.PRIO_PROCESS, target.victim, 19)


@attack("victim")
def process_outside_limited(target: Target) -> None:
    import resource

    resource.prlimit(target.victim, resource.RLIMIT_CPU, (1, 1))


@attack("victim")
def process_outside_written_to(target: Target) -> None:
    with open(f"/proc/{target.victim}/mem", "r+b", 0) as memory:
        memory.seek(target.victim_address)
        memory.write(b"CHANGED!")


@attack("victim")
def process_outside_written_to_by_system_call(target: Target) -> None:
    buffer = ctypes.create_string_buffer(b"CHANGED!")
    local = struct.pack("PN", ctypes.addressof(buffer), 8)
    remote = struct.pack("PN", target.victim_address, 8)
    syscall("process_vm_writev", target.victim, local, 1, remote, 1, 0)


@attack("victim")
def process_outside_made_a_likelier_victim(target: Target) -> None:
    with open(f"/proc/{target.victim}/oom_score_adj", "w") as file:
        file.write("900")
