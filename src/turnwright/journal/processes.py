"""Which process is which: a pid alone may belong to somebody else by the time it is looked at."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

from turnwright.journal.records import Holder


@cache
def boot() -> str:
    """This boot of this machine; empty where the system does not say."""
    return _read("/proc/sys/kernel/random/boot_id").strip()


@cache
def pid_space() -> str:
    """Containers that share a host name may see different processes under one pid."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def started(pid: int) -> str:
    """When a process started, in the system's own words; empty where there is none."""
    if not boot():
        return _started_by_ps(pid)
    # The name in parentheses may itself hold spaces and parentheses.
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return "" if not fields or fields[0] in "ZX" else fields[19]


def _started_by_ps(pid: int) -> str:
    """Where there is no /proc (macOS)."""
    import subprocess

    shown = subprocess.run(["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout.strip()


def myself(label: str) -> Holder:
    pid = os.getpid()
    start_time = f"{boot()}|{pid_space()}|{started(pid)}"
    return Holder(pid=pid, host=socket.gethostname(), start_time=start_time, label=label)


def is_dead(holder: Holder, host: str) -> bool:
    """True only where it is certain: on this machine, and its pid is gone or belongs to a later process."""
    if holder.host != host:
        return False
    its_boot, its_pid_space, its_start = holder.start_time.split("|")
    if its_boot != boot():
        return True
    return its_pid_space == pid_space() and started(holder.pid) != its_start
