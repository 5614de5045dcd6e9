"""Mounts, namespaces, and the kernel's settings that stand behind them."""

from __future__ import annotations

import contextlib
import os
import struct

from attack_kit import Target, Unsupported, attack, overwrite, reached, show, syscall

CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWPID = 0x10000000, 0x20000, 0x40000000, 0x20000000
MS_RDONLY, MS_REMOUNT, MS_BIND = 1, 32, 4096
SYSCTL = "/proc/sys/kernel/printk_ratelimit_burst"
"""Harmless, and put back by the suite."""


@attack("sysctl", bare="root")
def setting(_target: Target) -> None:
    with open(SYSCTL, "w") as file:
        file.write("11")


@attack("sysctl", "victim", bare="root")
def setting_through_the_root_of_the_host(target: Target) -> None:
    with open(f"/proc/{target.victim}/root{SYSCTL}", "w") as file:
        file.write("11")


@attack("sysctl", bare="root")
def setting_by_another_mount(_target: Target) -> None:
    """A fresh /proc does not have what was laid over the first."""
    os.mkdir("proc")
    syscall("mount", b"proc", b"proc", b"proc", 0, None)
    with open("proc/sys/kernel/printk_ratelimit_burst", "w") as file:
        file.write("11")


@attack("sysctl", bare="root")
def setting_uncovered(_target: Target) -> None:
    with contextlib.suppress(OSError):
        syscall("umount2", b"/proc/sys", 2)
    with open(SYSCTL, "w") as file:
        file.write("11")


@attack("sysctl", bare="root")
def setting_remounted(_target: Target) -> None:
    with contextlib.suppress(OSError):
        syscall("mount", b"none", b"/proc/sys", None, MS_REMOUNT | MS_BIND, None)
    with open(SYSCTL, "w") as file:
        file.write("11")


@attack("sysctl", bare="root")
def setting_from_a_namespace(_target: Target) -> None:
    """In a user namespace of its own every process is root; the kernel's settings are still the host's."""
    fd = -1
    with contextlib.suppress(OSError):
        fd = os.open(SYSCTL, os.O_WRONLY)
    with contextlib.suppress(OSError):
        syscall("unshare", CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID)
    os.write(fd if fd >= 0 else os.open(SYSCTL, os.O_WRONLY), b"11")


@attack("sysfs", bare="root")
def device_setting(_target: Target) -> None:
    with open("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "w") as file:
        file.write("10001")


@attack("cgroup", bare="root")
def control_group(target: Target) -> None:
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        if os.path.exists(f"{root}/cgroup.procs"):
            return os.mkdir(f"{root}/{target.nonce}")
    raise Unsupported("no control groups are mounted")


@attack()
def user_namespace_by_unshare(_target: Target) -> None:
    syscall("unshare", CLONE_NEWUSER)
    reached("a user namespace")


@attack()
def user_namespace_by_clone(_target: Target) -> None:
    _cloned("clone", CLONE_NEWUSER | 17, 0, 0, 0, 0)


@attack()
def user_namespace_by_clone3(_target: Target) -> None:
    arguments = struct.pack("11Q", CLONE_NEWUSER, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
    _cloned("clone3", arguments, len(arguments))


def _cloned(name: str, *arguments: object) -> None:
    pid = syscall(name, *arguments)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    reached(f"a user namespace by {name}")


@attack()
def other_namespaces(_target: Target) -> None:
    try:
        syscall("unshare", CLONE_NEWUSER | CLONE_NEWNET)
    except OSError:
        syscall("unshare", CLONE_NEWNET)
    reached("a network of its own")


@attack("victim", bare="root")
def namespace_of_the_host(target: Target) -> None:
    syscall("setns", os.open(f"/proc/{target.victim}/ns/mnt", os.O_RDONLY), CLONE_NEWNS)
    overwrite(target.canary, target)


@attack("victim", bare="root")
def namespace_of_the_host_by_descriptor(target: Target) -> None:
    syscall("setns", syscall("pidfd_open", target.victim, 0), CLONE_NEWNS)
    overwrite(target.canary, target)


@attack(bare="root")
def mount_of_memory(_target: Target) -> None:
    syscall("mount", b"none", b"folder", b"tmpfs", 0, None)
    reached("a mount")


@attack(bare="root")
def mount_of_a_folder(target: Target) -> None:
    syscall("mount", target.outside.encode(), b"folder", None, MS_BIND, None)
    overwrite("folder/canary", target)


@attack(bare="root")
def mount_made_writable(target: Target) -> None:
    for path in (b"/", target.outside.encode()):
        try:
            syscall("mount", b"none", path, None, MS_REMOUNT | MS_BIND, None)
        except OSError:
            continue
    overwrite(target.canary, target)


@attack(bare="root")
def mount_by_the_new_calls(_target: Target) -> None:
    fd = syscall("fsopen", b"tmpfs", 0)
    reached(f"a file system as descriptor {fd}")


@attack(bare="root")
def mount_copied(target: Target) -> None:
    fd = syscall("open_tree", -100, target.outside.encode(), 1)
    with open(os.open("canary", os.O_RDWR, dir_fd=fd), "r+b") as file:
        file.write(target.nonce.encode())


@attack(bare="root")
def mount_attributes(target: Target) -> None:
    syscall("mount_setattr", -100, b"/", 0x8000, struct.pack("4Q", 0, MS_RDONLY, 0, 0), 32)
    overwrite(target.canary, target)


@attack(bare="root")
def mask_taken_away(target: Target) -> None:
    """What hides the keys is a mount like any other."""
    for _ in range(5):
        try:
            syscall("umount2", f"{target.home}/.ssh".encode(), 2)
        except OSError:
            break
    show(f"{target.home}/.ssh/id_ed25519")


@attack(bare="root")
def other_root(target: Target) -> None:
    """The old way out of a chroot; with a root of our own in between."""
    os.mkdir("jail")
    above = os.open("/", os.O_RDONLY)
    syscall("chroot", b"jail")
    os.fchdir(above)
    for _ in range(20):
        os.chdir("..")
    overwrite(target.canary[1:], target)
