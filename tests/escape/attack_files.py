"""Writing where no one may: beside the workspace, at home, in the system; in the workspace where it is read-only."""

from __future__ import annotations

import ctypes
import os
import shutil

from attack_kit import Target, attack, create, libc, overwrite, syscall

AT_FDCWD = -100
RENAME_EXCHANGE = 2


@attack()
def absolute(target: Target) -> None:
    overwrite(target.canary, target)


@attack()
def traversal(target: Target) -> None:
    overwrite("../outside/canary", target)


@attack()
def sibling_prefix(target: Target) -> None:
    overwrite(f"{target.workspace}-sibling/canary", target)


@attack()
def new_file_outside(target: Target) -> None:
    create(f"{target.outside}/new", target)


@attack()
def new_file_beside(target: Target) -> None:
    create(f"{target.workspace}.new", target)


@attack()
def link_to_file(target: Target) -> None:
    os.symlink(target.canary, "link")
    overwrite("link", target)


@attack()
def link_to_folder(target: Target) -> None:
    os.symlink("../outside", "link")
    create("link/new", target)


@attack()
def link_chain(target: Target) -> None:
    os.symlink("b", "a")
    os.symlink("c/../../outside", "b")
    os.mkdir("c")
    overwrite("a/canary", target)


@attack()
def link_through_proc(target: Target) -> None:
    os.symlink(f"/proc/self/cwd/../outside/canary", "link")  # noqa: F541
    overwrite("link", target)


@attack()
def magic_root(target: Target) -> None:
    overwrite(f"/proc/self/root{target.canary}", target)


@attack()
def magic_root_of_all(target: Target) -> None:
    """Through the root and working folder of every process that can be seen."""
    last: OSError | None = None
    for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
        for way in (f"/proc/{pid}/root{target.canary}", f"/proc/{pid}/cwd/canary", f"/proc/{pid}/cwd{target.canary}"):
            try:
                return overwrite(way, target)
            except OSError as stopped:
                last = stopped
    raise last or PermissionError("no process to be seen")


@attack("victim")
def magic_root_of_host(target: Target) -> None:
    overwrite(f"/proc/{target.victim}/root{target.canary}", target)


@attack("victim")
def magic_folder_of_host(target: Target) -> None:
    overwrite(f"/proc/{target.victim}/cwd/canary", target)


@attack("victim")
def magic_file_of_host(target: Target) -> None:
    overwrite(f"/proc/{target.victim}/fd/{target.victim_fd}", target)


@attack()
def reopened(target: Target) -> None:
    """A descriptor for reading, opened again for writing."""
    fd = os.open(target.canary, os.O_RDONLY)
    overwrite(f"/proc/self/fd/{fd}", target)


@attack()
def reopened_path(target: Target) -> None:
    fd = os.open(target.outside, os.O_PATH)
    overwrite(f"/proc/self/fd/{fd}/canary", target)


@attack()
def hard_link(target: Target) -> None:
    os.link(target.canary, "mine")
    overwrite("mine", target)


@attack()
def hard_link_out(target: Target) -> None:
    create("mine", target)
    os.link("mine", f"{target.outside}/new")


@attack()
def renamed_out(target: Target) -> None:
    create("mine", target)
    os.rename("mine", target.canary)


@attack()
def renamed_in(target: Target) -> None:
    os.rename(target.canary, "mine")


@attack()
def exchanged(target: Target) -> None:
    os.mkdir("mine")
    done = libc.renameat2(AT_FDCWD, b"mine", AT_FDCWD, f"{target.outside}/folder".encode(), RENAME_EXCHANGE)
    if done:
        raise OSError(ctypes.get_errno(), "renameat2")


@attack()
def deleted(target: Target) -> None:
    os.unlink(target.canary)


@attack()
def deleted_folder(target: Target) -> None:
    shutil.rmtree(target.outside)


@attack()
def truncated(target: Target) -> None:
    os.truncate(target.canary, 0)


@attack()
def truncated_on_open(target: Target) -> None:
    """Opening to read with O_TRUNC: it was once forgotten by a sandbox that looked at the access mode alone."""
    os.close(os.open(target.canary, os.O_RDONLY | os.O_TRUNC))


@attack()
def mode_changed(target: Target) -> None:
    os.chmod(target.canary, 0o777)


@attack()
def mode_changed_by_descriptor(target: Target) -> None:
    os.fchmod(os.open(target.canary, os.O_RDONLY), 0o777)


@attack()
def times_changed(target: Target) -> None:
    os.utime(target.canary, ns=(1, 1))


@attack()
def attribute_set(target: Target) -> None:
    os.setxattr(target.canary, "user.mark", target.nonce.encode())


@attack(bare="root")
def owner_changed(target: Target) -> None:
    os.chown(target.canary, 12345, 12345)


@attack()
def workspace_moved(target: Target) -> None:
    os.rename(target.workspace, f"{target.workspace}-moved")


@attack()
def workspace_replaced(target: Target) -> None:
    """So that the next command, or the user, works somewhere else."""
    os.rename(target.workspace, f"{target.workspace}-moved")
    os.symlink(target.outside, target.workspace)


@attack(bare="root")
def handle(target: Target) -> None:
    """A file by its number on the disk instead of its name: no folder has to be passed for that."""
    buffer = ctypes.create_string_buffer(136)
    ctypes.memmove(buffer, ctypes.byref(ctypes.c_uint(128)), 4)
    mount_id = ctypes.c_int()
    syscall("name_to_handle_at", AT_FDCWD, target.canary.encode(), buffer, ctypes.byref(mount_id), 0)
    folder = os.open(".", os.O_RDONLY)
    fd = syscall("open_by_handle_at", folder, buffer, os.O_RDWR)
    os.write(fd, target.nonce.encode())


@attack()
def race_of_a_folder_and_a_link(target: Target) -> None:
    """One name, now a folder and now a link out, while another writes through it."""
    os.mkdir("real")
    os.symlink("../outside", "aside")
    stopped: OSError | None = None
    for _ in range(200):
        if os.fork() == 0:
            libc.renameat2(AT_FDCWD, b"real", AT_FDCWD, b"aside", RENAME_EXCHANGE)
            os._exit(0)
        try:
            create("real/new", target)
        except OSError as failed:
            stopped = failed
        os.wait()
    if stopped:
        raise stopped
