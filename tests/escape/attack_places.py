"""Particular places: the user's home, the system's folders, the disk, Turnwright's own files; a workspace that is
read-only, and a folder beside it that is not."""

from __future__ import annotations

import os
import shutil
import stat
import struct
from pathlib import Path

from attack_kit import Target, Unsupported, attack, create, overwrite, reached, show, syscall


@attack()
def home_start_file(target: Target) -> None:
    with open(f"{target.home}/.bashrc", "a", encoding="utf-8") as file:
        file.write(target.nonce)


@attack()
def home_start_file_replaced(target: Target) -> None:
    create("mine", target)
    os.rename("mine", f"{target.home}/.bashrc")


@attack()
def home_first_start_file(target: Target) -> None:
    create(f"{target.home}/.zshenv", target)


@attack()
def home_autostart(target: Target) -> None:
    os.makedirs(f"{target.home}/.config/autostart", exist_ok=True)
    create(f"{target.home}/.config/autostart/mine.desktop", target)


@attack()
def home_authorized_keys(target: Target) -> None:
    create(f"{target.home}/.ssh/authorized_keys", target)


@attack()
def home_git_config(target: Target) -> None:
    create(f"{target.home}/.gitconfig", target, f"[core]\n\tfsmonitor = touch {target.outside}/{target.nonce}\n")


@attack("system", bare="root")
def system_folder(target: Target) -> None:
    create(f"/etc/turnwright-{target.nonce}", target)


@attack("system")
def temporary_folder(target: Target) -> None:
    """Not a way out by itself, but where other programs look for their sockets and half-written files."""
    create(f"/tmp/turnwright-{target.nonce}", target)


@attack("system")
def other_temporary_folder(target: Target) -> None:
    create(f"/var/tmp/turnwright-{target.nonce}", target)


@attack("system")
def shared_memory(target: Target) -> None:
    create(f"/dev/shm/turnwright-{target.nonce}", target)


@attack("system", bare="root")
def run_folder(target: Target) -> None:
    create(f"/run/turnwright-{target.nonce}", target)


@attack(bare="root", sure=False)
def disk_by_its_number(target: Target) -> None:
    """The block device under the workspace, by a name of our own."""
    device = os.stat(target.canary).st_dev
    os.mknod("disk", 0o600 | stat.S_IFBLK, device)
    try:
        os.read(os.open("disk", os.O_RDONLY), 512)
    except OSError as missing:
        if missing.errno == 6:  # ENXIO: a file system without a device of its own
            raise Unsupported("the file system has no device of its own") from missing
        raise
    reached("the disk, raw")


@attack(bare="root", sure=False)
def disk_by_its_name(_target: Target) -> None:
    for name in sorted(os.listdir("/sys/block")):
        if name.startswith(("loop", "ram", "zram")):
            continue
        os.read(os.open(f"/dev/{name}", os.O_RDONLY), 512)
        return reached(f"/dev/{name}, raw")
    raise Unsupported("no disk")


@attack(level="read-only")
def read_only_overwrite(target: Target) -> None:
    overwrite("README.md", target)


@attack(level="read-only")
def read_only_create(target: Target) -> None:
    create("new", target)


@attack(level="read-only")
def read_only_delete(_target: Target) -> None:
    os.unlink("README.md")


@attack(level="read-only")
def read_only_rename(_target: Target) -> None:
    os.rename("README.md", "README")


@attack(level="read-only")
def read_only_mode(_target: Target) -> None:
    os.chmod("README.md", 0o777)


@attack(level="read-only")
def read_only_folder(_target: Target) -> None:
    os.mkdir("new")


@attack(level="read-only")
def read_only_link(_target: Target) -> None:
    os.symlink("README.md", "new")


@attack("lends")
def program_that_lends_rights(_target: Target) -> None:
    """Left behind in the workspace: it is the user's own, and whoever starts it has the user's rights."""
    shutil.copy("/bin/true", "mine")
    os.chmod("mine", 0o4755)


@attack("lends")
def program_that_lends_rights_by_descriptor(_target: Target) -> None:
    shutil.copy("/bin/true", "mine")
    os.fchmod(os.open("mine", os.O_RDONLY), 0o2755)


@attack("lends")
def program_made_to_lend_rights(_target: Target) -> None:
    """With the bit from its beginning; what is written to it by its owner without rights does not take it away."""
    os.umask(0)
    os.close(os.open("mine", os.O_CREAT | os.O_RDONLY, 0o4755))


@attack("lends")
def program_made_to_lend_rights_by_the_newer_call(_target: Target) -> None:
    os.umask(0)
    syscall("openat2", -100, b"mine", struct.pack("3Q", os.O_CREAT | os.O_RDONLY, 0o4755, 0), 24)


@attack("lends")
def program_made_to_lend_rights_as_a_node(_target: Target) -> None:
    os.umask(0)
    os.mknod("mine", 0o4755 | stat.S_IFREG)


@attack("granted", options=("--write", "{granted}"))
def beside_a_granted_folder(target: Target) -> None:
    create(f"{target.granted}-sibling/new", target)


@attack("granted", options=("--write", "{granted}"))
def above_a_granted_folder(target: Target) -> None:
    create(f"{target.granted}/../new", target)


@attack("granted", options=("--write", "{granted}"))
def granted_folder_exchanged_for_a_link(target: Target) -> None:
    os.rename(target.granted, f"{target.granted}-moved")
    os.symlink(target.outside, target.granted)


@attack()
def journal_changed(target: Target) -> None:
    for path in Path(target.data).rglob("*"):
        if path.is_file():
            return overwrite(str(path), target)
    raise PermissionError("no file of the journal to be seen")


@attack()
def journal_removed(target: Target) -> None:
    shutil.rmtree(target.data)


@attack()
def trust_forged(target: Target) -> None:
    os.makedirs(f"{target.home}/.local/state/turnwright", exist_ok=True)
    create(f"{target.home}/.local/state/turnwright/trust.json", target)


@attack()
def user_settings_changed(target: Target) -> None:
    os.makedirs(f"{target.home}/.config/turnwright", exist_ok=True)
    create(f"{target.home}/.config/turnwright/config.yaml", target)


@attack("home-workspace")
def user_settings_in_the_workspace(target: Target) -> None:
    """Where somebody works in the home folder itself: the settings of every run to come."""
    os.makedirs(".config/turnwright", exist_ok=True)
    create(".config/turnwright/config.yaml", target, "machine: {sandbox: off}\n")


@attack()
def journal_read(target: Target) -> None:
    for path in Path(target.data).rglob("*"):
        if path.is_file():
            show(str(path))
