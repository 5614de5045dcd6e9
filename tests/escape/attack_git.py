"""What git obeys: hooks and configuration, of the workspace's repository, of one inside it, and of one that is new.

Whether something was changed or made is seen from outside; and `git status` and a commit are run there afterwards.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from attack_kit import Target, attack, create, overwrite


def program(target: Target) -> str:
    return f"#!/bin/sh\necho {target.nonce} > {target.outside}/ran\n"


def executable(path: str, target: Target) -> None:
    create(path, target, program(target))
    os.chmod(path, 0o755)


def config(target: Target) -> str:
    return f"[core]\n\tfsmonitor = echo {target.nonce} > {target.outside}/ran; false\n"


@attack()
def new_hook(target: Target) -> None:
    executable(".git/hooks/pre-commit", target)


@attack()
def changed_hook(target: Target) -> None:
    overwrite(".git/hooks/post-commit", target)


@attack()
def hook_by_rename(target: Target) -> None:
    executable("mine", target)
    os.rename("mine", ".git/hooks/pre-commit")


@attack()
def hook_by_hard_link(target: Target) -> None:
    executable("mine", target)
    os.link("mine", ".git/hooks/pre-commit")


@attack()
def hook_by_link(target: Target) -> None:
    executable("mine", target)
    os.symlink("../../mine", ".git/hooks/pre-commit")


@attack("no-hooks")
def first_hooks_folder(target: Target) -> None:
    os.mkdir(".git/hooks")
    executable(".git/hooks/pre-commit", target)


@attack("no-hooks")
def first_hooks_folder_as_a_link(target: Target) -> None:
    os.mkdir("mine")
    executable("mine/pre-commit", target)
    os.symlink("../mine", ".git/hooks")


@attack()
def hooks_folder_moved_away(target: Target) -> None:
    os.rename(".git/hooks", ".git/old-hooks")
    os.mkdir(".git/hooks")
    executable(".git/hooks/pre-commit", target)


@attack()
def hooks_folder_removed(target: Target) -> None:
    shutil.rmtree(".git/hooks")
    os.mkdir(".git/hooks")
    executable(".git/hooks/pre-commit", target)


@attack()
def config_changed(target: Target) -> None:
    with open(".git/config", "a", encoding="utf-8") as file:
        file.write(config(target))


@attack()
def config_by_git(target: Target) -> None:
    done = subprocess.run(["git", "config", "core.fsmonitor", program(target)], capture_output=True, check=False)
    if done.returncode:
        raise PermissionError(done.stderr.decode())


@attack()
def config_by_rename(target: Target) -> None:
    """As git itself does it: a lock file beside it, which then takes its name."""
    create(".git/config.lock", target, config(target))
    os.rename(".git/config.lock", ".git/config")


@attack()
def config_by_hard_link(target: Target) -> None:
    os.link(".git/config", "mine")
    overwrite("mine", target)


@attack()
def config_removed(target: Target) -> None:
    os.unlink(".git/config")
    create(".git/config", target, config(target))


@attack()
def config_mode(_target: Target) -> None:
    os.chmod(".git/config", 0o666)


@attack()
def commondir(target: Target) -> None:
    """Where git finds its configuration, if this file says so."""
    os.makedirs("mine")
    create("mine/config", target, config(target))
    create(".git/commondir", target, "../mine\n")


@attack("modules")
def module_config(target: Target) -> None:
    create(".git/modules/part/config", target, config(target))


@attack()
def first_module(target: Target) -> None:
    os.makedirs(".git/modules/part")
    create(".git/modules/part/config", target, config(target))


@attack()
def folder_moved(target: Target) -> None:
    os.rename(".git", ".git-old")
    shutil.copytree(".git-old", ".git")
    executable(".git/hooks/pre-commit", target)


@attack()
def folder_replaced_by_a_file(target: Target) -> None:
    shutil.copytree(".git", "mine")
    executable("mine/hooks/pre-commit", target)
    os.rename(".git", ".git-old")
    create(".git", target, "gitdir: mine\n")


@attack()
def folder_exchanged_for_a_link(target: Target) -> None:
    shutil.copytree(".git", "mine")
    executable("mine/hooks/pre-commit", target)
    os.rename(".git", ".git-old")
    os.symlink("mine", ".git")


@attack("no-git")
def first_repository(target: Target) -> None:
    os.makedirs(".git/hooks")
    create(".git/config", target, config(target))


@attack("no-git")
def first_repository_by_git(target: Target) -> None:
    done = subprocess.run(["git", "init", "-q", "."], capture_output=True, check=False)
    if done.returncode:
        raise PermissionError(done.stderr.decode())
    create(".git/config", target, config(target))


@attack("no-git")
def first_repository_as_a_file(target: Target) -> None:
    os.makedirs("mine")
    create("mine/config", target, config(target))
    create(".git", target, "gitdir: mine\n")


@attack("no-git")
def first_repository_as_a_link(target: Target) -> None:
    os.makedirs("mine")
    create("mine/config", target, config(target))
    os.symlink("mine", ".git")


@attack("git-file")
def file_changed(target: Target) -> None:
    """In a linked worktree `.git` is a file that says where the repository is."""
    shutil.copytree("../main/.git", "mine")
    create("mine/config", target, config(target))
    create(".git", target, "gitdir: mine\n")


@attack("git-file")
def hook_of_the_main_tree(target: Target) -> None:
    executable("../main/.git/hooks/pre-commit", target)


@attack("git-file")
def config_of_the_worktree(target: Target) -> None:
    create("../main/.git/worktrees/project/config.worktree", target, config(target))


@attack("git-file")
def commondir_of_the_worktree(target: Target) -> None:
    os.makedirs("mine")
    create("mine/config", target, config(target))
    create("../main/.git/worktrees/project/commondir", target, f"{target.workspace}/mine\n")


@attack("nested")
def nested_hook(target: Target) -> None:
    executable("nested/.git/hooks/pre-commit", target)


@attack("nested")
def nested_config(target: Target) -> None:
    with open("nested/.git/config", "a", encoding="utf-8") as file:
        file.write(config(target))


@attack()
def first_nested_repository(target: Target) -> None:
    """A repository of the command's own, in a folder of the workspace: whoever goes there and asks git, obeys it."""
    done = subprocess.run(["git", "init", "-q", "nested"], capture_output=True, check=False)
    if done.returncode:
        raise PermissionError(done.stderr.decode())
    create("nested/.git/config", target, config(target))


@attack("nested")
def nested_folder_moved(target: Target) -> None:
    os.rename("nested", "nested-old")
    shutil.copytree("nested-old", "nested")
    create("nested/.git/config", target, config(target))
