"""Files of the workspace that other programs than git obey: Turnwright itself, shells, CI."""

from __future__ import annotations

import os

from attack_kit import Target, attack, create, overwrite


@attack()
def settings_first(target: Target) -> None:
    os.makedirs(".turnwright")
    create(".turnwright/config.yaml", target)


@attack("settings")
def settings_changed(target: Target) -> None:
    overwrite(".turnwright/config.yaml", target)


@attack("settings")
def settings_added(target: Target) -> None:
    create(".turnwright/hooks.yaml", target)


@attack("settings")
def settings_moved(target: Target) -> None:
    os.rename(".turnwright", "old")
    os.makedirs(".turnwright")
    create(".turnwright/config.yaml", target)


@attack()
def settings_by_rename(target: Target) -> None:
    os.makedirs("mine")
    create("mine/config.yaml", target)
    os.rename("mine", ".turnwright")


@attack()
def settings_as_a_link(target: Target) -> None:
    os.makedirs("mine")
    create("mine/config.yaml", target)
    os.symlink("mine", ".turnwright")


@attack()
def servers_first(target: Target) -> None:
    create(".mcp.json", target, '{"mcpServers": {}}')


@attack("settings")
def servers_changed(target: Target) -> None:
    overwrite(".mcp.json", target)


@attack("settings")
def servers_by_rename(target: Target) -> None:
    create("mine", target)
    os.rename("mine", ".mcp.json")


@attack("settings")
def servers_removed(_target: Target) -> None:
    os.unlink(".mcp.json")


@attack()
def servers_as_a_link(target: Target) -> None:
    create("mine", target)
    os.symlink("mine", ".mcp.json")


@attack("ci")
def ci_changed(target: Target) -> None:
    overwrite(".github/workflows/ci.yml", target)


@attack("ci")
def ci_added(target: Target) -> None:
    create(".github/workflows/mine.yml", target)


@attack("ci")
def ci_ancestor_renamed(target: Target) -> None:
    os.rename(".github", "old")
    os.makedirs(".github/workflows")
    create(".github/workflows/mine.yml", target)


@attack()
def ci_first(target: Target) -> None:
    os.makedirs(".github/workflows")
    create(".github/workflows/mine.yml", target)


@attack()
def ci_first_by_rename(target: Target) -> None:
    os.makedirs("mine/workflows")
    create("mine/workflows/mine.yml", target)
    os.rename("mine", ".github")


@attack()
def ci_of_another_kind(target: Target) -> None:
    create(".gitlab-ci.yml", target)


@attack("home-workspace")
def start_file_in_the_workspace(target: Target) -> None:
    """Where somebody works in the home folder itself."""
    with open(".bashrc", "a", encoding="utf-8") as file:
        file.write(target.nonce)


@attack("home-workspace")
def first_start_file_in_the_workspace(target: Target) -> None:
    create(".zshenv", target)
